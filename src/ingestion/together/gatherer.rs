//! Gathers requests of several jobs that one model call can answer.
//!
//! Nothing runs in the background: the request that waits at the front makes the call for the
//! others. If its job is cancelled, the others notice and make calls of their own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// How long a request waits for others.
const PATIENCE: Duration = Duration::from_millis(100);

/// The answers to the requests of one call, in their order.
pub struct Gathered<A> {
    /// `None` for a request that has no answer.
    pub answers: Vec<Option<A>>,
    /// The answers may change what the next calls should be told, so the next call waits for them.
    pub news: bool,
}

pub struct Gatherer<R, A> {
    state: Mutex<State<R, A>>,
    /// Something has changed: a new request, or the end of a call.
    changed: Notify,
    /// The weight of one call at most.
    most: usize,
    /// Concurrent calls at most.
    concurrency: usize,
}

struct State<R, A> {
    waiting: VecDeque<Waiting<R, A>>,
    next_number: u64,
    running: usize,
    /// How many calls may run now: one after news, twice as many after a call without news.
    wave: usize,
}

struct Waiting<R, A> {
    number: u64,
    request: R,
    weight: usize,
    since: Instant,
    reply: oneshot::Sender<Option<A>>,
}

/// What a waiting request does next.
enum Turn<R, A> {
    /// It makes the call for these; the first one is its own.
    Lead(Vec<Waiting<R, A>>),
    /// It waits, until this time at most.
    Wait(Instant),
}

impl<R, A> Gatherer<R, A> {
    pub fn new(most: usize, concurrency: usize) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            next_number: 0,
            running: 0,
            wave: 1,
        };

        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            most,
            concurrency,
        }
    }

    /// Waits a moment for other requests and has one call answer all of them. `None`: nobody else
    /// came, or the call did not answer this request.
    pub async fn ask<F>(
        &self,
        request: R,
        weight: usize,
        call: impl FnOnce(Vec<R>) -> F,
    ) -> Option<A>
    where
        F: Future<Output = Gathered<A>>,
    {
        let (reply, mut answer) = oneshot::channel();
        let place = self.enter(request, weight, reply);

        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From now on no change is missed.
            changed.as_mut().enable();

            let until = match self.turn(place.number) {
                Turn::Lead(taken) => return self.lead(taken, call).await,
                Turn::Wait(until) => until,
            };

            tokio::select! {
                biased;
                answer = &mut answer => return answer.ok().flatten(),
                () = tokio::time::sleep_until(until) => {}
                () = changed => {}
            }
        }
    }

    fn enter(
        &self,
        request: R,
        weight: usize,
        reply: oneshot::Sender<Option<A>>,
    ) -> Place<'_, R, A> {
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(Waiting {
            number,
            request,
            weight,
            since: Instant::now(),
            reply,
        });

        drop(state);
        self.changed.notify_waiters();
        Place {
            gatherer: self,
            number,
        }
    }

    fn turn(&self, number: u64) -> Turn<R, A> {
        let mut state = self.state();
        let later = Instant::now() + PATIENCE;
        let Some(front) = state.waiting.front() else {
            return Turn::Wait(later);
        };

        if front.number != number || state.running >= state.wave {
            return Turn::Wait(later);
        }

        let due = front.since + PATIENCE;
        let weight: usize = state.waiting.iter().map(|waiting| waiting.weight).sum();
        if weight < self.most && Instant::now() < due {
            return Turn::Wait(due);
        }

        let (mut taken, mut weight) = (Vec::new(), 0);
        while let Some(next) = state.waiting.front() {
            weight += next.weight;
            if weight > self.most && !taken.is_empty() {
                break;
            }

            taken.extend(state.waiting.pop_front());
        }

        state.running += 1;
        drop(state);
        // The next one is at the front now.
        self.changed.notify_waiters();
        Turn::Lead(taken)
    }

    async fn lead<F>(&self, taken: Vec<Waiting<R, A>>, call: impl FnOnce(Vec<R>) -> F) -> Option<A>
    where
        F: Future<Output = Gathered<A>>,
    {
        let _running = Running { gatherer: self };
        if taken.len() < 2 {
            return None;
        }

        let (requests, replies): (Vec<R>, Vec<_>) = taken
            .into_iter()
            .map(|waiting| (waiting.request, waiting.reply))
            .unzip();

        let Gathered { answers, news } = call(requests).await;
        {
            let mut state = self.state();
            state.wave = if news {
                1
            } else {
                (state.wave * 2).min(self.concurrency.max(1))
            };
        }

        let mut answers = answers.into_iter();
        let own = answers.next().flatten();
        // A request whose job has ended meanwhile needs no answer.
        for (reply, answer) in replies.into_iter().skip(1).zip(answers) {
            let _ = reply.send(answer);
        }

        own
    }

    fn state(&self) -> MutexGuard<'_, State<R, A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's place in the queue; gives way when the request is dropped.
struct Place<'g, R, A> {
    gatherer: &'g Gatherer<R, A>,
    number: u64,
}

impl<R, A> Drop for Place<'_, R, A> {
    fn drop(&mut self) {
        let mut state = self.gatherer.state();
        let before = state.waiting.len();
        state
            .waiting
            .retain(|waiting| waiting.number != self.number);
        let left = state.waiting.len() < before;
        drop(state);

        if left {
            self.gatherer.changed.notify_waiters();
        }
    }
}

/// A running call; ends also when its leader is cancelled.
struct Running<'g, R, A> {
    gatherer: &'g Gatherer<R, A>,
}

impl<R, A> Drop for Running<'_, R, A> {
    fn drop(&mut self) {
        self.gatherer.state().running -= 1;
        self.gatherer.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn doubled(calls: &AtomicUsize, numbers: Vec<u64>) -> Gathered<u64> {
        calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
        Gathered {
            answers: numbers.iter().map(|number| Some(number * 2)).collect(),
            news: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_come_together_share_calls() {
        let (gatherer, calls) = (Gatherer::new(5, 4), AtomicUsize::new(0));
        let all = (0..17).map(|number| {
            let calls = &calls;
            gatherer.ask(number, 1, move |numbers| doubled(calls, numbers))
        });

        let answers = futures_util::future::join_all(all).await;
        let wanted: Vec<Option<u64>> = (0..17).map(|number| Some(number * 2)).collect();
        assert_eq!(answers, wanted);
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_company_is_not_called_here() {
        let (gatherer, calls) = (Gatherer::new(5, 4), AtomicUsize::new(0));
        let began = Instant::now();
        let answer = gatherer.ask(1, 1, |numbers| doubled(&calls, numbers)).await;
        assert_eq!((answer, calls.load(Ordering::Relaxed)), (None, 0));
        assert!(began.elapsed() < PATIENCE * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn others_go_on_if_the_one_that_calls_is_cancelled() {
        let gatherer = Gatherer::<u64, u64>::new(3, 4);
        let ask = |number| {
            let never = |_| std::future::pending::<Gathered<u64>>();
            gatherer.ask(number, 1, never)
        };

        // Dropped after a moment, as the work of a cancelled job is.
        let first = tokio::time::timeout(Duration::from_millis(1), ask(1));
        let (first, second, third) = tokio::join!(first, ask(2), ask(3));
        assert!(first.is_err());
        assert_eq!((second, third), (None, None));
        assert_eq!(gatherer.state().running, 0);
    }
}
