//! `rategov-fuzz`: the targets without a fuzzer.
//!
//! ```text
//! rategov-fuzz list             each target and what must hold of it
//! rategov-fuzz seeds FOLDER     writes FOLDER/NAME/seed-N and FOLDER/words.dict
//! rategov-fuzz run NAME FILE…   plays inputs again; a finding ends it with its panic
//! ```

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use rategov_fuzz::{TARGETS, dictionary, find};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["list"] => {
            for target in TARGETS {
                println!("{}\t{}", target.name, target.holds);
            }
            Ok(())
        }
        ["seeds", folder] => seeds(Path::new(folder)),
        ["run", name, files @ ..] => return run(name, files),
        _ => {
            eprintln!("usage: rategov-fuzz list | seeds FOLDER | run NAME FILE…");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("rategov-fuzz: {cause}");
            ExitCode::FAILURE
        }
    }
}

fn seeds(folder: &Path) -> std::io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    fs::write(folder.join("words.dict"), dictionary())
}

fn run(name: &str, files: &[&str]) -> ExitCode {
    let Some(target) = find(name) else {
        eprintln!("rategov-fuzz: there is no target `{name}`\n  hint: `rategov-fuzz list`");
        return ExitCode::from(2);
    };
    for file in files {
        match fs::read(file) {
            Ok(bytes) => (target.check)(&bytes),
            Err(cause) => {
                eprintln!("rategov-fuzz: {file}: {cause}");
                return ExitCode::FAILURE;
            }
        }
        eprintln!("{file}: holds");
    }
    ExitCode::SUCCESS
}
