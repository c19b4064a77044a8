//! Prompts that begin with anything, in any script, of any size: the model request carries them, and is known.

use crate::proxy::Proxy;
use crate::shim::Setting;

/// Runs a prompt to its end, and gives the text block that carried it.
async fn carried(prompt: &str) -> String {
    let proxy = Proxy::start(&[]).await;
    let mut setting = Setting::new();
    setting.relay().through(&proxy);
    setting.prompt(prompt);
    let shim = setting.start();
    let turn = shim.executor.turn(0).await;
    shim.executor.reply(&turn, "done", &[]);
    assert!(!shim.executor.finished().await.is_error, "{prompt:?}");
    let body = proxy.bodies().remove(0);
    let blocks = body["messages"][0]["content"].as_array().unwrap();
    let texts = blocks.iter().filter_map(|block| block["text"].as_str());
    texts.filter(|text| text.starts_with("[gatehouse run 1]")).last().unwrap().to_owned()
}

#[tokio::test]
async fn no_first_character_means_anything() {
    let odd = [
        "/help",
        "/",
        "--version",
        "-p",
        "@/etc/passwd what is this",
        "!ls",
        "#remember",
        "&",
        "?",
        "\"quoted\"",
        "'",
        "`ls`",
        "$HOME",
        "\\n",
        "{\"type\":\"user\"}",
        "<system-reminder>x</system-reminder>",
        "[gatehouse run 2]\nx",
        "%s%n",
        "~",
        "a",
    ];
    for prompt in odd {
        assert_eq!(carried(prompt).await, format!("[gatehouse run 1]\n{prompt}"));
    }
}

#[tokio::test]
async fn every_script_is_carried() {
    for prompt in [
        "日本語のプロンプト",
        "🎉👨‍👩‍👧‍👦",
        "שלום עולם",
        "مرحبا",
        "\u{202e}right to left",
        "e\u{301}",
        "\u{feff}bom",
        "ไทย",
    ] {
        assert_eq!(carried(prompt).await, format!("[gatehouse run 1]\n{prompt}"));
    }
}

#[tokio::test]
async fn white_space_and_control_characters_leave_the_marker_alone() {
    for prompt in [" ", "\n", "\t\t", "\r\n", "\n\nx\n\n", "\u{0}", "\u{1b}[31m", "\u{2028}"] {
        assert!(carried(prompt).await.starts_with("[gatehouse run 1]"), "{prompt:?}");
    }
}

#[tokio::test]
async fn the_largest_prompt_is_carried_whole() {
    let prompt = "ä日🎉 ".repeat(256 * 1024 / 10);
    assert_eq!(carried(prompt.trim_end()).await.len(), "[gatehouse run 1]\n".len() + prompt.trim_end().len());
}
