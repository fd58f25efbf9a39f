//! Placeholder until the embedded model lands.
#[derive(Debug, Clone)]
pub struct LocalModel;
#[derive(Debug, Clone)]
pub struct HelperInput<'a> {
    pub filename: &'a str,
    pub title: Option<&'a str>,
    pub metadata: &'a [(String, String)],
    pub chunks: &'a [&'a str],
}
#[derive(Debug, Clone)]
pub struct HelperOutput {
    pub author: Option<String>,
    pub date: Option<String>,
    pub topic: Option<String>,
    pub summary: String,
}
#[derive(Debug, Clone)]
pub struct ClassifyInput<'a> {
    pub contextual_helper: Option<&'a str>,
    pub level: u32,
    pub depth: u32,
    pub parent: &'a [&'a str],
    pub categories: &'a [&'a str],
    pub may_create: bool,
    pub chunks: &'a [(i64, &'a str)],
}
#[derive(Debug, Clone)]
pub struct AnswerChunk<'a> {
    pub chunk_id: i64,
    pub path: &'a str,
    pub text: &'a str,
}
impl LocalModel {
    pub fn tokens(text: &str) -> usize {
        text.len()
    }
    pub fn helper(_: &HelperInput<'_>) -> HelperOutput {
        HelperOutput { author: None, date: None, topic: None, summary: "x".into() }
    }
    pub fn classify(i: &ClassifyInput<'_>) -> Vec<(i64, String)> {
        i.chunks.iter().map(|c| (c.0, "Miscellaneous".to_owned())).collect()
    }
    pub fn select(_q: &str, options: &[&str], _at: usize) -> Vec<(String, u32)> {
        vec![(options[0].to_owned(), 1)]
    }
    pub fn summarize(c: &[(i64, &str, usize)]) -> Vec<(i64, String)> {
        c.iter().map(|c| (c.0, c.1.chars().take(c.2).collect())).collect()
    }
    pub fn answer(_q: &str, _c: &[AnswerChunk<'_>]) -> String {
        "x".into()
    }
}
