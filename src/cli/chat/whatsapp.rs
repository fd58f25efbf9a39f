//! Reads a WhatsApp text export: one message per line, longer ones over several lines.

use super::formats::{Chat, ChatMessage};
use super::times::{DayOrder, stamp};

/// Number of lines that are checked to detect a chat.
const LOOKED_AT: usize = 5;

/// Whether a text begins like a chat.
pub fn is_chat(text: &str) -> bool {
    text.lines().take(LOOKED_AT).any(|line| {
        head(line).is_some_and(|(time, _)| {
            stamp(&time, DayOrder::DayFirst).is_some()
                || stamp(&time, DayOrder::MonthFirst).is_some()
        })
    })
}

/// The messages of a chat. Lines that no person wrote, such as notices, are left out.
pub fn chat(text: &str, name: &str) -> Chat {
    let heads: Vec<(String, &str)> = text.lines().filter_map(head).collect();
    let stamps: Vec<&str> = heads.iter().map(|(time, _)| time.as_str()).collect();
    let order = DayOrder::of(&stamps);
    let mut messages: Vec<ChatMessage> = Vec::new();
    // Whether a line without a time continues a message.
    let mut open = false;
    for line in text.lines() {
        let begun = head(line).and_then(|(time, rest)| Some((stamp(&time, order)?, rest)));
        match begun {
            Some((at, rest)) => {
                let said = rest.split_once(": ").filter(|(name, _)| name.len() <= 100);
                open = said.is_some();
                if let Some((speaker, content)) = said {
                    messages.push(ChatMessage {
                        role: None,
                        name: Some(speaker.trim().to_owned()),
                        content: content.to_owned(),
                        at: Some(at),
                    });
                }
            }
            None if open => {
                if let Some(last) = messages.last_mut() {
                    last.content.push('\n');
                    last.content.push_str(line);
                }
            }
            None => {}
        }
    }

    Chat {
        key: format!("whatsapp/{name}"),
        title: Some(name.to_owned()),
        started_at: None,
        messages,
    }
}

/// The time at the beginning of a line, with plain spaces, and the rest.
fn head(line: &str) -> Option<(String, &str)> {
    let line = line.trim_start_matches(['\u{200e}', '\u{200f}', '\u{feff}']);
    let (time, rest) = match line.strip_prefix('[') {
        Some(inside) => inside.split_once("] ")?,
        None => line.split_once(" - ")?,
    };
    let begins = time.chars().next().is_some_and(|c| c.is_ascii_digit());
    (begins && time.len() <= 40).then(|| {
        let time = time.replace(['\u{202f}', '\u{a0}'], " ");
        (time, rest.trim_start_matches('\u{200e}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_export_are_read() {
        let phone = "\u{200e}[29.12.23, 00:51:12] Ann Lee: Hello\nsecond line\n\
                     [29.12.23, 00:52:00] Bob: Hi: there\n";
        assert!(is_chat(phone));
        let messages = chat(phone, "x").messages;
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].content, "Hello\nsecond line");
        assert_eq!(messages[1].name.as_deref(), Some("Bob"));
        assert_eq!(messages[1].content, "Hi: there");

        let other = "12/29/23, 9:15\u{202f}PM - Messages are encrypted.\nnotice\n\
                     12/29/23, 9:16\u{202f}PM - Ann: ok\n";
        assert!(is_chat(other));
        let messages = chat(other, "x").messages;
        assert_eq!(messages.len(), 1);
        assert_eq!(
            messages[0].at.unwrap().to_string(),
            "2023-12-29T21:16:00.000000Z"
        );
        assert!(!is_chat("[{\"a\": 1}]"));
    }
}
