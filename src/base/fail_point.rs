//! Points at which a test can kill the process, like a power cut.
//!
//! A point is compiled in only with the cargo feature `testing`, and does nothing unless
//! `testing.fail_point` names it.

/// Ends the process here if `testing.fail_point` names this point; nothing without the feature
/// `testing`.
macro_rules! fail_point {
    ($name:literal) => {
        #[cfg(feature = "testing")]
        $crate::base::fail_point::hit($name);
    };
}

pub(crate) use fail_point;

#[cfg(feature = "testing")]
pub use armed::{arm, hit};

#[cfg(feature = "testing")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static ARMED: OnceLock<Armed> = OnceLock::new();

    struct Armed {
        name: String,
        hits_left: AtomicU32,
    }

    /// Arms a point: `name`, or `name:n` for its n-th hit. Empty arms nothing. Only the first call
    /// counts.
    pub fn arm(point: &str) {
        if point.is_empty() {
            return;
        }

        let (name, hits) = point.split_once(':').unwrap_or((point, "1"));
        let hits_left = AtomicU32::new(hits.parse().unwrap_or(1).max(1));
        let _ = ARMED.set(Armed {
            name: name.to_owned(),
            hits_left,
        });
    }

    /// Kills the process here if this point is armed and its count is reached.
    pub fn hit(name: &str) {
        if let Some(armed) = ARMED.get()
            && armed.name == name
            && armed.hits_left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            std::process::abort();
        }
    }
}
