//! What the model of a stage can do besides answering a prompt, asked by what a caller wants to know.
//! At present only the embedded model can do most of it; no other module has to know that.

use super::provider::Capabilities;
use super::send::Target;
use super::tasks::classify::Classify;
use super::tasks::helper::Helper;
use super::tasks::select::Select;
use super::{Llm, Session, Task as _};
use crate::model::category::NamedBy;

impl Llm {
    /// Whether the model that files chunks compares them with samples of the categories, and follows
    /// the outline of their source. Other models need only names.
    pub fn files_by_samples(&self, session: &Session) -> bool {
        self.capabilities(Classify::STAGE, session).samples
    }

    /// Whether the model that files chunks names categories without a list of them.
    pub fn names_freely(&self, session: &Session) -> bool {
        self.is_small(Classify::STAGE, session)
    }

    /// Whether the model that selects categories should see only a few options.
    pub fn selects_from_few(&self, session: &Session) -> bool {
        self.is_small(Select::STAGE, session)
    }

    /// Whether filing costs nothing but time, so that its answers may be computed again.
    pub fn files_for_free(&self, session: &Session) -> bool {
        self.capabilities(Classify::STAGE, session).in_process
    }

    /// Who names the categories that filing creates.
    pub fn names_categories_as(&self, session: &Session) -> NamedBy {
        if self.files_by_samples(session) {
            NamedBy::Embedded
        } else {
            NamedBy::Model
        }
    }

    /// Whether a helper costs nothing but time, so that it may be generated again.
    pub fn describes_for_free(&self, session: &Session) -> bool {
        self.capabilities(Helper::STAGE, session).in_process
    }

    /// Whether everything that ingesting a text asks of models costs nothing but time, if the
    /// request names this model.
    pub fn ingests_for_free(&self, model: Option<&str>) -> bool {
        let is_free = |stage| self.is_free(model, stage);
        is_free(Classify::STAGE) && is_free(Helper::STAGE)
    }

    /// Whether short texts of one request gain from sharing calls, if it names this model.
    pub fn gains_from_shared_calls(&self, model: Option<&str>) -> bool {
        let is_free = |stage| self.is_free(model, stage);
        !is_free(Classify::STAGE) && !is_free(Helper::STAGE)
    }

    /// Whether a job may pay for calls that it shares with those of other requests: no cap of its own
    /// may be reached because it did.
    pub fn may_pay_for_others(&self) -> bool {
        self.settings().caps.job.is_open()
    }

    fn is_free(&self, model: Option<&str>, stage: &str) -> bool {
        let model = model.unwrap_or_else(|| self.model_of(stage));
        self.target(model)
            .is_ok_and(|target| target.capabilities().in_process)
    }

    /// Whether filed chunks are re-examined as others arrive. Not while the calls or tokens of jobs
    /// are capped: these calls are optional.
    pub fn takes_a_second_look(&self, session: &Session) -> bool {
        let caps = &self.settings().caps;
        let is_capped = [caps.job, caps.space_day]
            .iter()
            .any(|caps| caps.calls > 0 || caps.tokens > 0);
        self.capabilities(Classify::STAGE, session).second_look && !is_capped
    }

    /// Whether the model that selects categories uses what a search found in them, or samples.
    pub fn selects_by_contents(&self, session: &Session) -> bool {
        self.capabilities(Select::STAGE, session).samples
    }

    /// Whether the model of a stage names better than it chooses.
    fn is_small(&self, stage: &str, session: &Session) -> bool {
        self.target_of(stage, session)
            .is_some_and(|target| target.profile.names_freely(&target.model))
    }

    /// The capabilities of the model that a session uses in this stage.
    fn capabilities(&self, stage: &str, session: &Session) -> Capabilities {
        self.target_of(stage, session)
            .map(|target| target.capabilities())
            .unwrap_or_default()
    }

    fn target_of(&self, stage: &str, session: &Session) -> Option<Target> {
        let model = session
            .model
            .as_deref()
            .unwrap_or_else(|| self.model_of(stage));
        self.target(model).ok()
    }
}
