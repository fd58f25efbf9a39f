//! Words that are never names of categories, and nouns that look like verbs.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;

/// Never a name, although the vocabulary knows them as words with a meaning: pronouns, old forms,
/// and forms of verbs that no rule recognises.
const NEVER: &str = "aboard aforethought began begun blew blown broke broken brought came caught chose chosen \
    clung crept dealt done dost doth drew drawn driven eaten fallen fell flew flown flung forgot \
    forgotten fought froze frozen gave given gone grew grown hadst hast hath heard held herself hid \
    hidden himself hung itself kept knelt knew known laid lain meant merry myself nigh oneself \
    ourselves paid ran rang ridden risen rode sang sank sat seem seemed seems seen sent shaken shalt shone shook \
    shown shrank slept slid sold spent spoke spoken sprang stole stolen stood struck stuck sung sunk \
    swam swept swore sworn swung taken taught thee themselves thine thou threw thrown thy till told \
    took torn understood unto upon went wept wilt woke wore worn woven written wrote yourself";

/// Nouns that look like a verb with -ing.
const NOUNS_WITH_ING: &str = "banking building ceiling clothing evening gardening heating hiking housing king lighting \
    marketing meeting morning painting parking pricing ring shipping spring string thing training wedding wing writing";

pub fn is_never_a_name(form: &str) -> bool {
    static NEVER_NAMES: LazyLock<FxHashSet<&str>> =
        LazyLock::new(|| NEVER.split_whitespace().collect());
    NEVER_NAMES.contains(form)
}

pub fn is_noun_with_ing(word: &str) -> bool {
    let mut nouns = NOUNS_WITH_ING.split(' ');
    nouns.any(|noun| noun.eq_ignore_ascii_case(word))
}
