//! Reads a WhatsApp text export: one message per line, longer ones over several lines.

use super::formats::{Chat, ChatMessage};
use super::times::{DayOrder, stamp};

/// Number of lines that are checked to detect a chat.
const LOOKED_AT: usize = 5;
/// The longest time at the beginning of a line, in bytes.
const LONGEST_TIME: usize = 40;
/// The longest name of a sender. A notice can contain a colon further on.
const LONGEST_NAME: usize = 100;
/// Marks for the direction of writing, which exports put before and into times.
const MARKS: [char; 3] = ['\u{200e}', '\u{200f}', '\u{feff}'];

/// Whether a text begins like a chat.
pub fn is_chat(text: &str) -> bool {
    text.lines()
        .take(LOOKED_AT)
        .any(|line| head(line).is_some())
}

/// The messages of a chat. Lines that no person wrote, such as notices, are left out.
pub fn chat(text: &str, name: &str) -> Chat {
    // Empty lines at the end of the file belong to no message.
    let text = text.trim();
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
                let said = rest
                    .split_once(": ")
                    .filter(|(name, _)| name.chars().count() <= LONGEST_NAME);
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
    let line = line.trim_start_matches(MARKS);
    let (time, rest) = match line.strip_prefix('[') {
        Some(inside) => inside.split_once("] ")?,
        None => line.split_once(" - ")?,
    };
    let begins = time.chars().next().is_some_and(|c| c.is_ascii_digit());
    if !begins || time.len() > LONGEST_TIME {
        return None;
    }

    let time = time.replace(MARKS, "").replace(['\u{202f}', '\u{a0}'], " ");
    // Text such as `1.2.3 - notes` is no time, and must not decide the order of day and month.
    let valid = |order| stamp(&time, order).is_some();
    let is_time = valid(DayOrder::DayFirst) || valid(DayOrder::MonthFirst);
    is_time.then(|| (time, rest.trim_start_matches('\u{200e}')))
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

    /// The time and the sender of each message.
    fn senders(text: &str) -> Vec<String> {
        assert!(is_chat(text), "{text}");
        let messages = chat(text, "x").messages;
        let one = |message: &ChatMessage| {
            let at = message.at.unwrap().to_string();
            format!("{} {}", &at[..19], message.name.as_deref().unwrap())
        };
        messages.iter().map(one).collect()
    }

    #[test]
    fn exports_of_several_phones_and_countries_are_read() {
        let evening = ["2026-10-03T18:02:11 Ann", "2026-10-04T09:00:00 Bob"];
        for export in [
            "[03.10.26, 18:02:11] Ann: a\n\u{200e}[04.10.26, 09:00:00] Bob: \u{200e}image omitted\n",
            "\u{200e}[10/3/26, 6:02:11\u{202f}PM] Ann: a\r\n[10/4/26, 9:00:00\u{202f}AM] Bob: b\r\n",
            "[10/3/26, 6:02:11 PM] Ann: a\n[10/4/26, 9:00:00 AM] Bob: b",
            "[2026-10-03, 18:02:11] Ann: a\n[2026-10-04, 09:00:00] Bob: b",
            "[3\u{200f}/10\u{200f}/2026, 18:02:11] Ann: a\n[4\u{200f}/10\u{200f}/2026, 9:00:00] Bob: b",
        ] {
            assert_eq!(senders(export), evening, "{export}");
        }

        let evening = ["2026-10-03T18:02:00 Ann", "2026-10-04T09:00:00 Bob"];
        for export in [
            "10/3/26, 6:02 PM - Ann: a\n10/4/26, 9:00 AM - Bob: b\n",
            "10/3/26, 6:02\u{202f}PM - Ann: a\n10/4/26, 9:00\u{202f}AM - Bob: b\n",
            "03.10.26, 18:02 - Ann: a\n04.10.26, 09:00 - Bob: b\n",
            "3/10/2026 18:02 - Ann: a\n4/10/2026 09:00 - Bob: b\n",
            "3/10/26, 6:02\u{a0}p.\u{a0}m. - Ann: a\n4/10/26, 9:00\u{a0}a.\u{a0}m. - Bob: b\n",
        ] {
            assert_eq!(senders(export), evening, "{export}");
        }
    }

    #[test]
    fn without_am_and_pm_the_whole_file_decides_the_order_of_day_and_month() {
        let day_first = "03/10/26, 18:02 - Ann: a\n04/10/26, 09:00 - Bob: b";
        assert_eq!(senders(day_first)[0], "2026-10-03T18:02:00 Ann");
        let month_first = "10/3/26, 18:02 - Ann: a\n10/31/26, 09:00 - Bob: b";
        assert_eq!(senders(month_first)[0], "2026-10-03T18:02:00 Ann");
        // With the day first, the second line would be before the first one.
        let in_order = "3/10/26, 18:02 - Ann: a\n4/1/26, 09:00 - Bob: b";
        assert_eq!(senders(in_order)[0], "2026-03-10T18:02:00 Ann");
        assert_eq!(senders(in_order)[1], "2026-04-01T09:00:00 Bob");
    }

    #[test]
    fn notices_are_left_out_and_text_that_begins_with_numbers_stays_text() {
        let export = "[10/3/26, 18:02:11] Messages are encrypted.\n\
                      [10/3/26, 18:02:12] Ann: see\n31.12.1 - notes\n[1] first\n\
                      [10/3/26, 18:03:00] Bob joined.\nand more of the notice\n\
                      [11/3/26, 18:03:00] Bob: ok\n\n\n";
        let messages = chat(export, "x").messages;
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0].content, "see\n31.12.1 - notes\n[1] first");
        assert_eq!(messages[1].content, "ok");
    }
}
