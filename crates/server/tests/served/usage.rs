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
    for event in body.split_inclusive("\n\n") {
        assert!(heard.contains(event), "{event} in {heard}");
    }
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

#[tokio::test]
async fn a_stream_is_settled_by_its_last_report() {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
        event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n\
        event: content_block_delta\ndata: {\"delta\":{\"text\":\"Hello\"}}\n\n\
        event: message_delta\ndata: {\"usage\":{\"output_tokens\":15}}\n\n";
    check(
        WHOLE,
        "requests=1 tokens=40 input_tokens=25 output_tokens=15 points=1",
    )
    .await;
}

#[tokio::test]
async fn a_stream_that_its_caller_leaves_is_settled_by_the_text_that_passed() {
    let world = World::new(Does::Stalls(STREAM)).await;
    let mut stream = generate(&world).await;
    let mut heard = Vec::new();
    while !heard.ends_with(b"there!\"}}\n\n") {
        heard.push(stream.read_u8().await.unwrap());
    }
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
