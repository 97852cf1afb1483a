//! What the tests need beside Rust, and how it gets onto a fresh machine.
//!
//! Three kinds, each looked for before anything is installed: Debian packages
//! (through `apt-get`, only as root), Python packages (a virtual environment in
//! `e2e/.venv` from `e2e/requirements.txt`), and npm packages (`e2e/package.json`).
//! The last two remember what they installed from, so that a second run is quick.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::steps::End;
use crate::tools;

/// A program of the system, how to see that it is there, and its Debian packages.
struct Need {
    what: &'static str,
    probe: (&'static str, &'static [&'static str]),
    packages: &'static [&'static str],
}

/// The table: looked for in this order.
const SYSTEM: &[Need] = &[
    Need {
        what: "git (which files are the project's)",
        probe: ("git", &["--version"]),
        packages: &["git"],
    },
    Need {
        what: "a C compiler (SQLite and the cryptography library are built from source)",
        probe: ("cc", &["--version"]),
        packages: &["gcc", "libc6-dev", "make"],
    },
    Need {
        what: "Python 3",
        probe: ("python3", &["--version"]),
        packages: &["python3"],
    },
    Need {
        what: "Python's venv module",
        probe: ("python3", &["-c", "import ensurepip, venv"]),
        packages: &["python3-venv"],
    },
    Need {
        what: "Node.js",
        probe: ("node", &["--version"]),
        packages: &["nodejs"],
    },
    Need {
        what: "npm",
        probe: ("npm", &["--version"]),
        packages: &["npm"],
    },
    Need {
        what: "root certificates",
        probe: ("test", &["-s", "/etc/ssl/certs/ca-certificates.crt"]),
        packages: &["ca-certificates"],
    },
];

/// Installs the Debian packages of whatever is missing.
pub fn system() -> anyhow::Result<End> {
    let missing: Vec<&Need> = SYSTEM
        .iter()
        .filter(|need| !tools::succeeds(need.probe.0, need.probe.1))
        .collect();
    if missing.is_empty() {
        return Ok(End::Skipped("all there".to_owned()));
    }
    let names: Vec<&str> = missing.iter().map(|need| need.what).collect();
    let packages: Vec<&str> = missing
        .iter()
        .flat_map(|need| need.packages)
        .copied()
        .collect();
    if !can_install() {
        bail!(
            "missing: {}\nhint: install them, on Debian with `apt-get install {}`",
            names.join(", "),
            packages.join(" "),
        );
    }
    eprintln!("installing {}: {}", packages.join(" "), names.join(", "));
    install(&packages)?;
    let still: Vec<&str> = missing
        .iter()
        .filter(|need| !tools::succeeds(need.probe.0, need.probe.1))
        .map(|need| need.what)
        .collect();
    if !still.is_empty() {
        bail!("still missing after the installation: {}", still.join(", "));
    }
    Ok(End::Done)
}

/// Installs Debian packages.
///
/// # Errors
/// If this is not Debian, not root, or the installation fails.
pub fn install(packages: &[&str]) -> anyhow::Result<()> {
    if !can_install() {
        bail!(
            "hint: install it, on Debian with `apt-get install {}`",
            packages.join(" ")
        );
    }
    let mut update = Command::new("apt-get");
    tools::run(update.args(["-qq", "update"]))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install
        .args(["-qq", "install", "--no-install-recommends", "--yes"])
        .args(packages);
    tools::run(&mut install)
}

fn can_install() -> bool {
    tools::find("apt-get").is_some() && is_root()
}

fn is_root() -> bool {
    tools::read(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// The end-to-end tests' folder and what it holds.
#[derive(Clone, Debug)]
pub struct EndToEnd {
    folder: PathBuf,
}

impl EndToEnd {
    /// The folder `e2e` of the repository, there or not.
    pub fn of(root: &Path) -> EndToEnd {
        EndToEnd {
            folder: root.join("e2e"),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether there are any tests: files `tests/test_*.py`.
    pub fn has_tests(&self) -> bool {
        let Ok(entries) = fs::read_dir(self.folder.join("tests")) else {
            return false;
        };
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("test_") && name.ends_with(".py")
        })
    }

    /// The virtual environment's pytest, if it was installed.
    pub fn pytest(&self) -> Option<PathBuf> {
        Some(self.folder.join(".venv/bin/pytest")).filter(|file| file.is_file())
    }

    /// Makes the virtual environment agree with `requirements.txt`.
    pub fn python(&self) -> anyhow::Result<End> {
        let wanted = self.folder.join("requirements.txt");
        if !wanted.is_file() {
            return Ok(End::Skipped("no e2e/requirements.txt".to_owned()));
        }
        let venv = self.folder.join(".venv");
        let stamp = Stamp::new(venv.join("installed-from.txt"), &[&wanted])?;
        if stamp.is_current() && self.pytest().is_some() {
            return Ok(End::Skipped("unchanged".to_owned()));
        }
        let mut create = Command::new("python3");
        tools::run(create.args(["-m", "venv", "--clear"]).arg(&venv))?;
        let mut install = Command::new(venv.join("bin/python"));
        install
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(&wanted);
        tools::run(&mut install)?;
        if self.pytest().is_none() {
            bail!("e2e/requirements.txt brings no pytest\nhint: add a line `pytest==VERSION`");
        }
        stamp.write()?;
        Ok(End::Done)
    }

    /// Makes `node_modules` agree with the lock file, or with `package.json` if there is none.
    pub fn node(&self) -> anyhow::Result<End> {
        let wanted = self.folder.join("package.json");
        if !wanted.is_file() {
            return Ok(End::Skipped("no e2e/package.json".to_owned()));
        }
        let lock = self.folder.join("package-lock.json");
        let modules = self.folder.join("node_modules");
        let stamp = Stamp::new(modules.join(".installed-from"), &[&wanted, &lock])?;
        if stamp.is_current() {
            return Ok(End::Skipped("unchanged".to_owned()));
        }
        let verb = if lock.is_file() { "ci" } else { "install" };
        let mut npm = Command::new("npm");
        npm.current_dir(&self.folder)
            .args([verb, "--no-audit", "--no-fund", "--loglevel=error"]);
        tools::run(&mut npm)?;
        fs::create_dir_all(&modules)
            .with_context(|| format!("{} can't be made", modules.display()))?;
        // npm may have written the lock file just now, so the stamp is taken again.
        Stamp::new(modules.join(".installed-from"), &[&wanted, &lock])?.write()?;
        Ok(End::Done)
    }
}

/// What an installation was made from, kept beside it.
struct Stamp {
    file: PathBuf,
    content: String,
}

impl Stamp {
    /// Reads the files that decide what is installed; one that is absent counts as empty.
    fn new(file: PathBuf, sources: &[&Path]) -> anyhow::Result<Stamp> {
        let mut content = String::new();
        for source in sources.iter().filter(|source| source.is_file()) {
            content += &fs::read_to_string(source)
                .with_context(|| format!("{} can't be read", source.display()))?;
            content.push('\0');
        }
        Ok(Stamp { file, content })
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.content)
    }

    fn write(&self) -> anyhow::Result<()> {
        fs::write(&self.file, &self.content)
            .with_context(|| format!("{} can't be written", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_current_until_what_it_was_made_from_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (wanted, lock) = (folder.path().join("wanted"), folder.path().join("lock"));
        let stamp = || Stamp::new(folder.path().join("stamp"), &[&wanted, &lock]).unwrap();
        fs::write(&wanted, "a==1").unwrap();
        assert!(!stamp().is_current());
        stamp().write().unwrap();
        assert!(stamp().is_current());
        fs::write(&lock, "").unwrap();
        assert!(
            !stamp().is_current(),
            "a lock file that appears changes what is installed"
        );
        stamp().write().unwrap();
        fs::write(&wanted, "a==2").unwrap();
        assert!(!stamp().is_current());
    }

    #[test]
    fn only_files_that_pytest_would_collect_count_as_tests() {
        let folder = tempfile::tempdir().unwrap();
        let e2e = EndToEnd::of(folder.path());
        assert!(!e2e.has_tests());
        fs::create_dir_all(folder.path().join("e2e/tests")).unwrap();
        fs::write(folder.path().join("e2e/tests/conftest.py"), "").unwrap();
        assert!(!e2e.has_tests());
        fs::write(folder.path().join("e2e/tests/test_sdks.py"), "").unwrap();
        assert!(e2e.has_tests());
        assert_eq!(e2e.pytest(), None);
    }

    #[test]
    fn without_a_list_nothing_is_installed() {
        let folder = tempfile::tempdir().unwrap();
        let e2e = EndToEnd::of(folder.path());
        let skipped = |why: &str| End::Skipped(why.to_owned());
        assert_eq!(e2e.python().unwrap(), skipped("no e2e/requirements.txt"));
        assert_eq!(e2e.node().unwrap(), skipped("no e2e/package.json"));
    }
}
