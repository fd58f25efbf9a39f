//! Gathers requests of several jobs that one model call can answer. A call leaves once it is full,
//! or once no other text can join it.
//!
//! Nothing runs in the background: the request that waits at the front makes the call for the
//! others. If its job is cancelled, the others notice and make calls of their own.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::stages::{Member, Stages};

/// The answers to the requests of one call, in their order.
pub struct CallAnswers<A> {
    /// `None` for a request that has no answer.
    pub answers: Vec<Option<A>>,
    /// The answers may change what the next calls should be told, so the next call waits for them.
    pub news: bool,
}

pub struct Gatherer<R, A> {
    state: Mutex<State<R, A>>,
    /// The front may go now: another one is there, a call is full, or a call has ended.
    changed: Notify,
    /// What its requests are about; texts at an earlier stage may still join.
    stage: usize,
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
    /// It waits, until this time at most if it is at the front.
    Wait(Option<Instant>),
}

impl<R, A> Gatherer<R, A> {
    pub fn new(stage: usize, most: usize, concurrency: usize) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                next_number: 0,
                running: 0,
                wave: 1,
            }),
            changed: Notify::new(),
            stage,
            most,
            concurrency,
        }
    }

    /// Waits for other requests, as long as texts may still bring some, and has one call answer all
    /// of them. `None`: no other request arrived, or the call did not answer this request.
    pub async fn ask<F>(
        &self,
        (stages, member): (&Stages, &Member<'_>),
        request: R,
        weight: usize,
        call: impl FnOnce(Vec<R>) -> F,
    ) -> Option<A>
    where
        F: Future<Output = CallAnswers<A>>,
    {
        let (reply, mut answer) = oneshot::channel();
        let position = self.enter(request, weight, reply);
        // Only now: whoever sees that nobody is missing must see this request.
        member.reach(self.stage);

        loop {
            let (changed, moved) = (self.changed.notified(), stages.moved());
            tokio::pin!(changed, moved);
            // From now on no change is missed.
            changed.as_mut().enable();
            moved.as_mut().enable();

            let until = match self.turn(position.number, stages) {
                Turn::Lead(taken) => return self.lead(taken, stages, call).await,
                Turn::Wait(until) => until,
            };

            let due = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };

            tokio::select! {
                biased;
                answer = &mut answer => return answer.ok().flatten(),
                () = due => {}
                () = changed => {}
                () = moved => {}
            }
        }
    }

    fn enter(
        &self,
        request: R,
        weight: usize,
        reply: oneshot::Sender<Option<A>>,
    ) -> QueuePosition<'_, R, A> {
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;

        let before = state.weight();
        state.waiting.push_back(Waiting {
            number,
            request,
            weight,
            since: Instant::now(),
            reply,
        });

        drop(state);
        if before < self.most && before + weight >= self.most {
            self.changed.notify_waiters();
        }

        QueuePosition {
            gatherer: self,
            number,
        }
    }

    fn turn(&self, number: u64, stages: &Stages) -> Turn<R, A> {
        let mut state = self.state();
        let is_front = |front: &Waiting<R, A>| front.number == number;
        let Some(front) = state.waiting.front().filter(|front| is_front(front)) else {
            return Turn::Wait(None);
        };

        if state.running >= state.wave {
            return Turn::Wait(None);
        }

        if state.weight() < self.most
            && let Some(due) = stages.wait_until(self.stage, front.since)
            && Instant::now() < due
        {
            return Turn::Wait(Some(due));
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

    async fn lead<F>(
        &self,
        taken: Vec<Waiting<R, A>>,
        stages: &Stages,
        call: impl FnOnce(Vec<R>) -> F,
    ) -> Option<A>
    where
        F: Future<Output = CallAnswers<A>>,
    {
        let _running = Running { gatherer: self };
        if taken.len() < 2 {
            return None;
        }

        let (requests, replies): (Vec<R>, Vec<_>) = taken
            .into_iter()
            .map(|waiting| (waiting.request, waiting.reply))
            .unzip();

        let began = Instant::now();
        let CallAnswers { answers, news } = call(requests).await;
        stages.note_call(began.elapsed());
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

impl<R, A> State<R, A> {
    fn weight(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.weight).sum()
    }
}

/// A request's position in the queue; gives way when the request is dropped.
struct QueuePosition<'g, R, A> {
    gatherer: &'g Gatherer<R, A>,
    number: u64,
}

impl<R, A> Drop for QueuePosition<'_, R, A> {
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
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;

    async fn doubled(calls: &AtomicUsize, took: Duration, numbers: Vec<u64>) -> CallAnswers<u64> {
        calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(took).await;
        CallAnswers {
            answers: numbers.iter().map(|number| Some(number * 2)).collect(),
            news: false,
        }
    }

    /// 203 texts go through three stages, on the last two under three and nine parents. Returns the
    /// calls.
    async fn walk_together(took: Duration) -> usize {
        let (stages, calls) = (Stages::default(), AtomicUsize::new(0));
        let first = Gatherer::new(1, 5, 4);
        let second: Vec<_> = (0..3).map(|_| Gatherer::new(2, 5, 4)).collect();
        let third: Vec<_> = (0..9).map(|_| Gatherer::new(3, 5, 4)).collect();
        let members: Vec<Member<'_>> = (0..203).map(|_| stages.join()).collect();

        let each = (0..203).zip(&members).map(|(number, member)| {
            let (stages, calls, first) = (&stages, &calls, &first);
            let (second, third) = (&second, &third);
            async move {
                // They do not arrive at the same time.
                tokio::time::sleep(Duration::from_millis(number * 7 % 300)).await;
                let at = |parents: usize| usize::try_from(number).unwrap() % parents;
                for gatherer in [first, &second[at(3)], &third[at(9)]] {
                    let call = |numbers| doubled(calls, took, numbers);
                    let answer = gatherer.ask((stages, member), number, 1, call).await;
                    assert!(answer.is_none_or(|answer| answer == number * 2));
                    if answer.is_none() {
                        // Nobody else came.
                        doubled(calls, took, vec![number]).await;
                    }
                }
            }
        });

        join_all(each).await;
        calls.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn texts_meet_on_every_level_however_slow_the_model_is() {
        // 41 full calls on each level, and at most one more for each parent.
        for took in [0, 5, 50, 500, 2000] {
            let calls = walk_together(Duration::from_millis(took)).await;
            assert!(calls <= 3 * 41 + 3 + 9, "{calls} calls at {took} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_without_company_does_not_wait() {
        let (stages, calls) = (Stages::default(), AtomicUsize::new(0));
        let gatherer = Gatherer::new(1, 5, 4);
        let (member, began) = (stages.join(), Instant::now());
        let call = |numbers| doubled(&calls, Duration::ZERO, numbers);
        let answer = gatherer.ask((&stages, &member), 1, 1, call).await;
        assert_eq!((answer, calls.load(Ordering::Relaxed)), (None, 0));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn texts_that_come_one_by_one_wait_for_each_other_only_while_they_linger() {
        let linger = Duration::from_millis(150);
        let (stages, calls) = (Stages::new(Some(linger)), AtomicUsize::new(0));
        let (gatherer, began) = (Gatherer::new(2, 5, 4), Instant::now());
        let (one, other) = (stages.join(), stages.join());
        let ask = |member, number| {
            let call = |numbers| doubled(&calls, Duration::ZERO, numbers);
            gatherer.ask((&stages, member), number, 1, call)
        };

        let later = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ask(&other, 2).await
        };
        assert_eq!(tokio::join!(ask(&one, 1), later), (Some(2), Some(4)));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(began.elapsed(), linger);
        assert!(!stages.is_open());

        // Nobody waits on later levels, and a full call does not wait at all.
        let full = Stages::new(Some(linger));
        let members: Vec<Member<'_>> = (0..5).map(|_| full.join()).collect();
        let began = Instant::now();
        join_all(members.iter().map(|member| {
            let call = |numbers| doubled(&calls, Duration::ZERO, numbers);
            gatherer.ask((&full, member), 1, 1, call)
        }))
        .await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_that_never_arrives_is_not_waited_for_long() {
        let (stages, calls) = (Stages::default(), AtomicUsize::new(0));
        let gatherer = Gatherer::new(1, 5, 4);
        let (one, other, _stuck) = (stages.join(), stages.join(), stages.join());
        let call = |numbers| doubled(&calls, Duration::ZERO, numbers);
        let (one, other) = tokio::join!(
            gatherer.ask((&stages, &one), 1, 1, call),
            gatherer.ask((&stages, &other), 2, 1, call)
        );
        assert_eq!((one, other), (Some(2), Some(4)));
    }

    #[tokio::test(start_paused = true)]
    async fn others_go_on_if_the_one_that_calls_is_cancelled() {
        let (stages, gatherer) = (Stages::default(), Gatherer::<u64, u64>::new(1, 3, 4));
        let members: Vec<Member<'_>> = (0..3).map(|_| stages.join()).collect();
        let ask = |number: usize| {
            let never = |_| std::future::pending::<CallAnswers<u64>>();
            gatherer.ask((&stages, &members[number]), 0, 1, never)
        };

        // Dropped after a moment, as the work of a cancelled job is.
        let first = tokio::time::timeout(Duration::from_millis(1), ask(0));
        let (first, second, third) = tokio::join!(first, ask(1), ask(2));
        assert!(first.is_err());
        assert_eq!((second, third), (None, None));
        assert_eq!(gatherer.state().running, 0);
    }
}
