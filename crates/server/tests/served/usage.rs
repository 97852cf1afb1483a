//! What the answers of metered calls cost, as the journal has it: read whole, passed
//! on as a stream, broken off, and left by their caller. No byte of them is changed.

use std::time::Instant;

use rategov_server::audit_text;
use rategov_store::JournalQuery;

use super::*;

/// Sends a prompt of five bytes.
async fn generate(world: &World) -> TcpStream {
    world
        .send(
            "POST /raw/generate HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer k\r\ncontent-type: application/json\r\n\
             content-length: 5\r\n\r\n{\"n\"}",
        )
        .await
}

/// The last record of an event.
fn recorded(world: &World, event: &str) -> Option<String> {
    let query = JournalQuery {
        event: Some(event.to_owned()),
        ..JournalQuery::default()
    };
    let store = world.governor.gateway().0.driver.store();
    let rows = store.reader_of_all().journal(&query).unwrap();
    rows.first()?.fact.as_ref().map(audit_text::line)
}

/// What the journal says that the only call cost.
async fn settled(world: &World) -> String {
    // A bound against hanging, not a measure.
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(line) = recorded(world, "settled") {
            return line[line.find("requests=").unwrap()..].to_owned();
        }
        assert!(Instant::now() < until, "nothing was settled");
        tokio::task::yield_now().await;
    }
}

async fn check(says: &'static str, expected: &str) {
    let world = World::new(Does::Says(says)).await;
    let heard = hear(&mut generate(&world).await).await;
    let (_, body) = says.split_once("\r\n\r\n").unwrap();
    assert!(heard.ends_with(body), "{heard}");
    assert_eq!(settled(&world).await, expected);
    world.governor.shut_down().await;
}

#[tokio::test]
async fn an_answer_is_settled_by_what_it_reports() {
    check(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 77\r\n\r\n\
         {\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29},\"a\":1}",
        "requests=1 tokens=29 input_tokens=19 output_tokens=10 points=1",
    )
    .await;
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
    event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n\
    event: content_block_delta\ndata: {\"delta\":{\"text\":\"Hello, all of you there!\"}}\n\n";

/// Reads until so much has come.
async fn hear_until(stream: &mut TcpStream, end: &[u8]) {
    let mut heard = Vec::new();
    while !heard.ends_with(end) {
        heard.push(stream.read_u8().await.unwrap());
    }
}

#[tokio::test]
async fn a_stream_is_settled_by_its_last_report() {
    const REST: &str = "event: message_delta\ndata: {\"usage\":{\"output_tokens\":15}}\n\n";
    let world = World::new(Does::Pauses(STREAM, REST)).await;
    let mut stream = generate(&world).await;
    hear_until(&mut stream, b"there!\"}}\n\n").await;
    world.may_say.add_permits(1);
    assert!(hear(&mut stream).await.contains(REST));
    assert_eq!(
        settled(&world).await,
        "requests=1 tokens=40 input_tokens=25 output_tokens=15 points=1"
    );
    world.governor.shut_down().await;
}

#[tokio::test]
async fn a_stream_that_its_caller_leaves_is_settled_by_the_text_that_passed() {
    let world = World::new(Does::Stalls(STREAM)).await;
    let mut stream = generate(&world).await;
    hear_until(&mut stream, b"there!\"}}\n\n").await;
    drop(stream);
    // 24 bytes of text are six tokens until a ratio is learnt, and one was reported.
    assert_eq!(
        settled(&world).await,
        "requests=1 tokens=31 input_tokens=25 output_tokens=6 points=1 estimated=yes"
    );
    world.governor.shut_down().await;
}

#[tokio::test]
async fn an_error_uses_nothing() {
    let world = World::new(Does::Says(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n\
         {\"error\":{\"message\":\"no.\"}}",
    ))
    .await;
    let heard = hear(&mut generate(&world).await).await;
    assert!(heard.contains("400 Bad Request"), "{heard}");
    // An answer leaves after its records.
    assert!(recorded(&world, "action_result").is_some());
    assert_eq!(recorded(&world, "settled"), None);
    world.governor.shut_down().await;
}

/// A provider whose answers tell points, and a question to it.
async fn asked(says: &'static str, more: &str) -> (World, String) {
    let world = World::under(Does::Says(says), more).await;
    let mut stream = world
        .send(
            "POST /raw/orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer k\r\ncontent-type: application/json\r\n\
             content-length: 5\r\n\r\n{\"n\"}",
        )
        .await;
    let heard = hear(&mut stream).await;
    (world, heard)
}

#[tokio::test]
async fn a_query_is_settled_by_the_points_that_its_answer_tells_in_body_or_head() {
    const IN_BODY: &str = "
    usage:
      - { what: points, paths: [$.extensions.cost.actualQueryCost] }
";
    const IN_HEAD: &str = "
    fields:
      - { header: x-points-limit, what: limit, dimension: points, window: 1h }
      - { header: x-complexity, what: cost }
";
    for (more, says) in [
        (
            IN_BODY,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 61\r\n\r\n\
             {\"data\":{\"a\":1},\"extensions\":{\"cost\":{\"actualQueryCost\":42}}}",
        ),
        (
            IN_HEAD,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Complexity: 42\r\n\
             X-Points-Limit: 1000\r\nContent-Length: 16\r\n\r\n{\"data\":{\"a\":1}}",
        ),
    ] {
        let (world, heard) = asked(says, more).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
        // Nothing of its text is counted, and what was told is no estimate.
        assert_eq!(settled(&world).await, "requests=1 points=42", "{more}");
        world.governor.shut_down().await;
    }
}

#[tokio::test]
async fn a_write_whose_provider_tells_no_points_is_not_metered() {
    let says = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Complexity: 42\r\n\
                Content-Length: 16\r\n\r\n{\"data\":{\"a\":1}}";
    let (world, heard) = asked(says, "").await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    assert!(recorded(&world, "action_result").is_some());
    assert_eq!(recorded(&world, "settled"), None);
    world.governor.shut_down().await;
}
