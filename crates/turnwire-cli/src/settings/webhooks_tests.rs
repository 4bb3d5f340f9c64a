use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STORE: (&str, &str) = ("TURNWIRE_STORE_URL", "sqlite://runs.db");

#[test]
fn receivers_are_read_with_their_secrets() {
    let text = "[[webhooks]]\nurl = \"https://a.example/x\"\nsecret_env = \"HOOK\"\n\
                [[webhooks]]\nurl = \"https://a.example/x\"\nsecret_env = \"HOOKS\"\n\
                tenant = \"acme\"\nevents = [\"response.failed\"]\ntimeout_sec = 3\n";
    let both = format!("{SECRET}, whsec_AAECAwQFBgcICQoLDA0ODw==");
    let read = demo_settings(text, &[STORE, ("HOOK", SECRET), ("HOOKS", &both)]).unwrap();
    let [first, second] = read.webhooks.receivers.try_into().unwrap();
    assert_eq!((first.tenant.as_str(), first.secrets.len()), ("default", 1));
    assert_eq!((second.tenant.as_str(), second.secrets.len()), ("acme", 2));
    let seconds = (first.timeout, second.timeout);
    assert_eq!(seconds, (Duration::from_secs(15), Duration::from_secs(3)));
    let [first, second] = read.webhooks.routes.try_into().unwrap();
    assert_eq!(first.events.len(), WebhookEvent::ALL.len());
    assert_eq!(second.events, [WebhookEvent::ResponseFailed].into());
    assert_eq!(read.store.unwrap().webhooks.len(), 2, "the store knows what to keep");
    assert_eq!(demo_settings("", &[]).unwrap().webhooks, WebhookSettings::default());
}

#[test]
fn mistakes_are_told_together() {
    let text = "[[webhooks]]\nevents = [\"response.complete\", \"x\"]\ntimeout_sec = 0\n\
                [[webhooks]]\nurl = \"https://a.example\"\nsecret_env = \"UNSET\"\nevents = []\n\
                [[webhooks]]\nurl = \"https://a.example\"\nsecret_env = \"SHORT\"\n";
    let known = "there are `response.completed`, `response.failed`, `response.incomplete`, \
                 `response.cancelled`, `run.approval_requested`";
    check_mistakes(
        text,
        &[STORE, ("SHORT", "whsec_c2hvcnQ=")],
        &[
            "webhooks[0].url: missing; it should look like https://example.com/turnwire",
            "webhooks[0].secret_env: missing; name the variable that has the secret, `whsec_…`",
            "webhooks[0].events[0]: `response.complete` is not the type of an event; did you mean \
             `response.completed`?",
            &format!("webhooks[0].events[1]: `x` is not the type of an event; {known}"),
            "webhooks[0].timeout_sec: 0 is not a whole number from 1 to 60",
            "webhooks[1].events: none is named; leave it out for all",
            "webhooks[2].url: the tenant has this receiver already",
            "webhooks[1].secret_env: the environment variable `UNSET` is not set",
            "webhooks[2].secret_env: `SHORT`: a secret is `whsec_` and at least 16 bytes in base64",
        ],
    );
}

/// A4: a receiver on a network that is not public is refused at the start, unless the operator
/// allows that network.
#[test]
fn receivers_are_where_egress_allows_them() {
    let webhook = "[[webhooks]]\nurl = \"http://10.1.2.3:8000/\"\nsecret_env = \"HOOK\"\n";
    let variables = [STORE, ("HOOK", SECRET)];
    check_mistakes(
        &webhook.replace("10.1.2.3", "a.example"),
        &variables,
        &[
            "webhooks[0].url: `http://a.example:8000/`: port 8000 is not allowed; [egress] says what \
           is allowed",
        ],
    );
    let inside = webhook.replace(":8000", "");
    check_mistakes(
        &inside,
        &variables,
        &[
            "webhooks[0].url: `http://10.1.2.3/`: that host is not on the public internet (private); \
           [egress] says what is allowed",
        ],
    );
    let opened =
        format!("{webhook}[egress]\nopen_networks = [\"10.0.0.0/8\"]\nports = [443, 8000]\n");
    assert_eq!(demo_settings(&opened, &variables).unwrap().webhooks.receivers.len(), 1);
}

/// Events that would be lost with the process are refused at the start.
#[test]
fn webhooks_need_a_database() {
    let text = "[[webhooks]]\nurl = \"https://a.example\"\nsecret_env = \"HOOK\"\n";
    check_mistakes(
        text,
        &[("HOOK", SECRET)],
        &["webhooks[0]: events are sent from a database; give one with [store] or \
           TURNWIRE_STORE_URL"],
    );
}
