//! Private networks are denied unless they are allowed explicitly.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

/// A4: private networks are denied until the operator allows them.
#[test]
fn networks_and_ports_are_opened_by_name() {
    assert_eq!(demo_settings("", &[]).unwrap().egress, EgressOptions::default());
    assert_eq!(EgressOptions::default().open_networks, []);
    assert_eq!(EgressOptions::default().ports, [80, 443]);
    let text = "[egress]\nopen_networks = [\"10.1.0.0/16\", \"fd00::1\"]\nports = [443, 8443]\n\
                timeout_sec = 7\n";
    let expected = EgressOptions {
        open_networks: vec!["10.1.0.0/16".parse().unwrap(), "fd00::1/128".parse().unwrap()],
        ports: vec![443, 8443],
        timeout: Duration::from_secs(7),
        ..EgressOptions::default()
    };
    assert_eq!(demo_settings(text, &[]).unwrap().egress, expected);
}

#[test]
fn what_is_wrong_is_told() {
    check_mistakes(
        "[egress]\nopen_networks = [\"intranet\", \"10.0.0.0/33\"]\nports = []\ntimeout_sec = 0\n",
        &[],
        &[
            "egress.open_networks[0]: `intranet` is not a network; it should look like 10.1.0.0/16 \
             or 10.1.2.3",
            "egress.open_networks[1]: `10.0.0.0/33` is not a network; it should look like \
             10.1.0.0/16 or 10.1.2.3",
            "egress.ports: none is named; leave it out for the usual ones",
            "egress.timeout_sec: 0 is not a whole number from 1 to 120",
        ],
    );
}
