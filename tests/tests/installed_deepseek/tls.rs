use gatehouse_tests::deepseek::{Answer, Authority, FakeDeepseek, Message, text};
use serde_json::json;

use crate::world::{World, delegate, seen_out};

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_counts_only_if_the_platform_believes_its_authority() {
    let authority = Authority::default();
    let provider = FakeDeepseek::over_tls(&authority).await;
    let endpoint = format!("https://localhost:{}/anthropic", provider.port());
    let Some(mut world) = World::with(provider, &endpoint, "", "").await else { return };
    let (mut brain, _) = world.session().await;
    let id = delegate(&mut brain, "sonnet").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["error"]["kind"]), (&json!("failed"), &json!("tls")), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("UnknownIssuer"), "{told}");
    assert!(world.provider.seen().is_empty(), "the credential went nowhere");

    // Where the platform keeps what it believes can be said to it, as for every other program of the user.
    let file = world.drawer.path().join("ca.pem");
    authority.write(&file);
    world.gateway.end_executor();
    world.gateway.start_executor_with(&[("SSL_CERT_FILE", file.to_str().unwrap())]).await;
    world.provider.script([Answer::Good(Message::flash(vec![text("Hello.")]))]);
    let id = delegate(&mut brain, "sonnet").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!((&told["status"], &told["result"]), (&json!("finished"), &json!("Hello.")), "{told}");
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name_is_refused_by_any_authority() {
    let authority = Authority::default();
    let provider = FakeDeepseek::over_tls(&authority).await;
    let endpoint = format!("https://127.0.0.1:{}", provider.port());
    let Some(mut world) = World::with(provider, &endpoint, "", "").await else { return };
    let file = world.drawer.path().join("ca.pem");
    authority.write(&file);
    world.gateway.end_executor();
    world.gateway.start_executor_with(&[("SSL_CERT_FILE", file.to_str().unwrap())]).await;
    let (mut brain, _) = world.session().await;
    let id = delegate(&mut brain, "sonnet").await;
    let told = seen_out(&mut brain, &id).await;
    assert_eq!(told["error"]["kind"], "tls", "{told}");
    assert!(world.provider.seen().is_empty());
    brain.finish("Done.").await.unwrap();
    world.gateway.finish().await;
}
