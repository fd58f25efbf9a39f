//! What the patterns find, and what they leave.

use std::time::Duration;

use strum::VariantArray as _;

use super::*;

fn redacted(built_in: &[BuiltIn], custom: &[&str], text: &str) -> String {
    let custom: Vec<String> = custom.iter().map(|&source| source.to_owned()).collect();
    let patterns = compile(&custom, built_in).expect("compiles");
    let limit = TimeLimit::of(Duration::from_mins(10));
    let redacted = patterns.redact(text, "[REDACTED]", limit);
    let redacted = redacted.expect("is in time");
    redacted.map_or_else(|| text.to_owned(), |redacted| redacted.text)
}

#[test]
fn every_built_in_pattern_compiles() {
    compile(&[], BuiltIn::VARIANTS).expect("compiles");
}

#[test]
fn the_standard_patterns_replace_their_samples_and_no_near_misses() {
    for (text, expected) in [
        ("SSN 123-45-6789.", "SSN [REDACTED]."),
        ("card 4111111111111111!", "card [REDACTED]!"),
        ("Ann@Example.org wrote", "[REDACTED] wrote"),
        ("12-345-6789", "12-345-6789"),
        ("411111111111111", "411111111111111"),
        ("41111111111111111", "41111111111111111"),
        ("ann at example.org", "ann at example.org"),
        (
            "_123-45-6789_ **4111111111111111**",
            "_[REDACTED]_ **[REDACTED]**",
        ),
        ("_4111111111111111_", "_[REDACTED]_"),
        ("_ann@example.org_", "_[REDACTED]_"),
        ("**ann_b@example.org**,x", "**[REDACTED]**,x"),
        (
            "Jörg: jörg.groß@müller.de, иван@почта.рф",
            "Jörg: [REDACTED], [REDACTED]",
        ),
        ("请写信给ann@example.org谢谢", "请写信给[REDACTED]谢谢"),
        ("é@x, ü@ö.d and @müller.de", "é@x, ü@ö.d and @müller.de"),
        (
            "v1234567890123456 0123-45-6789",
            "v1234567890123456 0123-45-6789",
        ),
    ] {
        assert_eq!(redacted(&[], &[], text), expected);
    }
}

#[test]
fn built_in_patterns_check_what_they_find() {
    for (own, text, expected) in [
        (
            BuiltIn::Iban,
            "to DE89 3704 0044 0532 0130 00 please",
            "to [REDACTED] please",
        ),
        (BuiltIn::Iban, "GB82WEST12345698765432", "[REDACTED]"),
        (
            BuiltIn::Iban,
            "DE88370400440532013000",
            "DE88370400440532013000",
        ),
        (BuiltIn::Card, "5500 0055 5555 5559", "[REDACTED]"),
        (
            BuiltIn::Card,
            "5500 0055 5555 5559 12 months",
            "[REDACTED] 12 months",
        ),
        (BuiltIn::Card, "378282246310005", "[REDACTED]"),
        (BuiltIn::Card, "5500 0055 5555 5550", "5500 0055 5555 5550"),
        (
            BuiltIn::Phone,
            "call +49 (0)30 1234567 now",
            "call [REDACTED] now",
        ),
        (BuiltIn::Phone, "call 555-123-4567", "call [REDACTED]"),
        (BuiltIn::Phone, "call 0170/1234567", "call [REDACTED]"),
        (BuiltIn::Phone, "on 03-10-2026 18:02", "on 03-10-2026 18:02"),
        (BuiltIn::Phone, "call (0170) 1234567", "call [REDACTED]"),
        (BuiltIn::Phone, "1.050 123456", "1.050 123456"),
        (
            BuiltIn::Phone,
            "in 2026, 1500 people",
            "in 2026, 1500 people",
        ),
        (
            BuiltIn::IpAddress,
            "from 192.168.0.1 to",
            "from [REDACTED] to",
        ),
        (
            BuiltIn::IpAddress,
            "from 2001:db8::1 to",
            "from [REDACTED] to",
        ),
        (
            BuiltIn::IpAddress,
            "version 300.1.2.3 at 10:30",
            "version 300.1.2.3 at 10:30",
        ),
        (
            BuiltIn::ApiKey,
            "key hf_abcdefghijklmnopqrstuvwx",
            "key [REDACTED]",
        ),
        (BuiltIn::ApiKey, "AKIAIOSFODNN7EXAMPLE", "[REDACTED]"),
        (
            BuiltIn::ApiKey,
            "sk-short and task-force-number",
            "sk-short and task-force-number",
        ),
        (
            BuiltIn::BearerToken,
            "Authorization: Bearer abcdef123456789",
            "Authorization: [REDACTED]",
        ),
        (
            BuiltIn::BearerToken,
            "the bearer of news",
            "the bearer of news",
        ),
        (
            BuiltIn::ApiKey,
            "_sk-abcdefghijklmnop123_ and __AKIAIOSFODNN7EXAMPLE__",
            "_[REDACTED] and __[REDACTED]__",
        ),
        (
            BuiltIn::ApiKey,
            "tokenghp_abcdefghijklmnopqrstuvwxyz012345",
            "token[REDACTED]",
        ),
        (
            BuiltIn::ApiKey,
            "task-management-system-2000, task_test_somethinglong",
            "task-management-system-2000, task_test_somethinglong",
        ),
        (
            BuiltIn::BearerToken,
            "_Bearer abcdef123456789_ and **Bearer** `abcdef123456789`",
            "_[REDACTED] and **[REDACTED]`",
        ),
        (
            BuiltIn::BearerToken,
            "tokeneyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln, keyJobRunner1.something.else",
            "token[REDACTED], keyJobRunner1.something.else",
        ),
        (
            BuiltIn::Phone,
            "_+49 30 1234567_ or __0170/1234567__",
            "_[REDACTED]_ or __[REDACTED]__",
        ),
        (
            BuiltIn::Phone,
            "Ann,12,030 1234567,Berlin\n7,+49 30 1234567\nBob,\"8\",555-123-4567",
            "Ann,12,[REDACTED],Berlin\n7,[REDACTED]\nBob,\"8\",[REDACTED]",
        ),
        (
            BuiltIn::Phone,
            "rose from 1,050 123456 to img_0123_456789, 2024_10_030",
            "rose from 1,050 123456 to img_0123_456789, 2024_10_030",
        ),
        (
            BuiltIn::IpAddress,
            "_192.168.0.1_ and v_300.1.2.3",
            "_[REDACTED]_ and v_300.1.2.3",
        ),
    ] {
        assert_eq!(redacted(&[own], &[], text), expected, "{own:?}");
    }

    let key = "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b";
    assert_eq!(redacted(&[BuiltIn::PrivateKey], &[], key), "a [REDACTED] b");
}

#[test]
fn patterns_match_the_original_text_only() {
    for (custom, text, expected) in [
        // What follows a match begins neither a text nor a word.
        ("^a", "aaa", "[REDACTED]aa"),
        ("abc", "abc1234567890123456", "[REDACTED]1234567890123456"),
        ("abc", "abc 1234567890123456", "[REDACTED] [REDACTED]"),
        ("^a", "123-45-6789 a", "[REDACTED] a"),
    ] {
        assert_eq!(redacted(&[], &[custom], text), expected);
    }
}

#[test]
fn a_phone_number_may_be_written_as_it_is_dialled() {
    for number in [
        "0049 170 1234567",
        "0049-170-1234567",
        "0049 (170) 1234567",
        "+49 170 - 1234567",
        "+49\u{200b}1701234567",
        "06 12 34 56 78",
        "8 (495) 123-45-67",
        "011 49 170 1234567",
        "001 555 123 4567",
    ] {
        let text = format!("call {number} now");
        assert_eq!(
            redacted(&[BuiltIn::Phone], &[], &text),
            "call [REDACTED] now",
            "{number}"
        );
    }

    for text in [
        "part 0012 of 0049",
        "00 12 34 56",
        "on 03 10 26",
        "+1 - 2 - 3",
    ] {
        assert_eq!(redacted(&[BuiltIn::Phone], &[], text), text);
    }
}

#[test]
fn a_phone_number_may_follow_the_full_stop_of_another() {
    let text = "call 030 1234567.030 1234568.0170 1234569, not 1.050 123456";
    assert_eq!(
        redacted(&[BuiltIn::Phone], &[], text),
        "call [REDACTED].[REDACTED].[REDACTED], not 1.050 123456"
    );
}

#[test]
fn numbers_are_found_beside_other_numbers_and_words() {
    for (own, text, expected) in [
        (
            BuiltIn::Card,
            "Order 12 4111 1111 1111 1111",
            "Order 12 [REDACTED]",
        ),
        (
            BuiltIn::Iban,
            "Room AB12 DE89 3704 0044 0532 0130 00",
            "Room AB12 [REDACTED]",
        ),
        (
            BuiltIn::IpAddress,
            "from:2001:db8::1. To 10.0.0.1.",
            "from:[REDACTED]. To [REDACTED].",
        ),
        (
            BuiltIn::IpAddress,
            "on ::1: refused",
            "on [REDACTED]: refused",
        ),
    ] {
        assert_eq!(redacted(&[own], &[], text), expected);
    }
}

#[test]
fn a_pattern_that_takes_too_long_is_named() {
    let patterns = compile(&["x|x.*y".to_owned()], &[]).expect("compiles");
    let over = TimeLimit::of(Duration::ZERO);
    let slow = patterns.redact("xx", "***", over).expect_err("is over");
    assert_eq!(slow.pattern, "ssn");

    // Every match is one letter, and looks for the end of the text first.
    let text = "x".repeat(1_000_000);
    let patterns = compile(&["x.*y|x".to_owned()], &[]).expect("compiles");
    let limit = TimeLimit::of(Duration::from_millis(200));
    let slow = patterns.redact(&text, "***", limit).expect_err("is over");
    assert_eq!(slow.pattern, "custom[0]");
}

#[test]
fn overlapping_matches_are_replaced_together() {
    assert_eq!(redacted(&[], &["bcd", "abc"], "xabcdx"), "x[REDACTED]x");
}

#[test]
fn a_pattern_that_cannot_be_used_says_why() {
    let long = "a".repeat(LONGEST_PATTERN + 1);
    for (source, reason) in [
        ("(", "is not a valid regular expression"),
        ("a*", "matches empty text"),
        (long.as_str(), "has 501 characters"),
        (r"\w{1000}{1000}", "has a size of 1000000"),
        (
            r"\w{40}",
            "is not a valid regular expression: Compiled regex exceeds size limit",
        ),
    ] {
        let faults = compile(&[source.to_owned()], &[]).expect_err("is rejected");
        assert_eq!(faults[0].field, "retrieval.customRedactionPatterns[0]");
        assert!(
            faults[0].message.starts_with(reason),
            "{}",
            faults[0].message
        );
    }
    assert!(compile(&vec!["a".to_owned(); MAX_PATTERNS + 1], &[]).is_err());
    let faults = compile(&vec!["[a-z]{100}".to_owned(); 21], &[]).expect_err("is rejected");
    assert_eq!(faults[0].field, "retrieval.customRedactionPatterns");
}
