//! What was used and what is left, for people who ask.

use turnwire_contract::{Actor, TenantId, UsageSubject, ports::Result};

use super::{QuotaStatus, QuotaSubjects, Quotas};
use crate::sync::lock;

/// Maximum number of holders of keys in a report.
pub const MAX_REPORTED_HOLDERS: usize = 1_000;

/// Where the quotas of a tenant, or of one holder of a key of it, stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectUsage {
    /// ID of a key, or `subject:` and the subject of a token. `None`: all of the tenant together.
    pub holder: Option<String>,
    /// Its quotas.
    pub quotas: Vec<QuotaStatus>,
}

impl Quotas {
    /// Returns where the quotas of a tenant and of the holder of one key stand. Counts nothing.
    /// What other processes used is at most two intervals old.
    pub async fn report(&self, tenant: &TenantId, actor: Option<&Actor>) -> Vec<QuotaStatus> {
        let users = QuotaSubjects::new(tenant, actor);
        self.read_unknown(&users).await;
        let mut report = self.standing(&mut lock(&self.counters), &users, self.clock.now());
        self.learn_runs(&users).await;
        report.extend(self.known_runs(&users));
        report
    }

    /// Returns how many bytes of files a tenant may store, if that is limited.
    pub fn max_stored_bytes(&self, tenant: &TenantId) -> Option<u64> {
        self.settings.get().quotas.quota_of(&UsageSubject::tenant(tenant)).stored_bytes
    }

    /// Returns where the quotas of a tenant stand, and those of all holders of keys that used
    /// something in a window that has not ended: at most [`MAX_REPORTED_HOLDERS`].
    pub async fn report_by_holder(&self, tenant: &TenantId) -> Result<Vec<SubjectUsage>> {
        let now = self.clock.now();
        let mut holders = lock(&self.counters).holders_of(tenant, now);
        if let Some(shared) = &self.shared {
            holders.extend(shared.holders_of(tenant, now, MAX_REPORTED_HOLDERS).await?);
        }
        let holders = holders.into_iter().take(MAX_REPORTED_HOLDERS);
        let of_holder = |holder| UsageSubject { tenant: tenant.clone(), holder: Some(holder) };
        let users = QuotaSubjects(
            [UsageSubject::tenant(tenant)].into_iter().chain(holders.map(of_holder)).collect(),
        );
        self.read_unknown(&users).await;
        self.learn_runs(&users).await;
        let mut report = Vec::with_capacity(users.0.len());
        for subject in users.0 {
            let (holder, user) = (subject.holder.clone(), QuotaSubjects(vec![subject]));
            let mut quotas = self.standing(&mut lock(&self.counters), &user, now);
            quotas.extend(self.known_runs(&user));
            report.push(SubjectUsage { holder, quotas });
        }
        Ok(report)
    }
}
