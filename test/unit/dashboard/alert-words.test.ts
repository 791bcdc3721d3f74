import { expect } from 'chai';
import {
  ALERT_KINDS,
  alertKindInSentence,
  alertKindText,
  kindOf,
  REPORTED_KINDS,
  wordsOfKind,
} from '../../../src/dashboard/features/alert-words/index.ts';
import { METRIC_ALERT_KINDS } from '../../../src/features/alert-rules/rule-metrics.ts';

describe('the words of kinds of alerts', () => {
  it('say what alerts about figures mean', () => {
    expect(alertKindText('cpu_high')).to.equal('High processor use');
    expect(alertKindText('disk_space_low')).to.equal('Low disk space');
    expect(alertKindText('device_offline')).to.equal('Device offline');
    expect(alertKindInSentence('backup_sla_breach')).to.equal('backup SLA breach');
    expect(alertKindInSentence('sso_provider_failing')).to.equal('SSO provider failing');
  });

  it('leave out the digits of the rule', () => {
    expect(alertKindText('log_event_0123456789ab')).to.equal('Log event');
    expect(alertKindText('software_change_0123456789ab')).to.equal('Software change');
    expect(alertKindText('log_event_later')).to.equal('Log event later');
  });

  it('are found again, with the digits of a rule where a policy is for one', () => {
    for (const kind of [...ALERT_KINDS, 'log_event_0123456789ab', 'of_a_later_release']) {
      expect(kindOf(wordsOfKind(kind))).to.equal(kind);
    }
    expect(kindOf('  low DISK   space ')).to.equal('disk_space_low');
  });

  it('are offered for every metric that rules can watch', () => {
    expect(ALERT_KINDS).to.include.members([...METRIC_ALERT_KINDS]);
    expect(new Set(ALERT_KINDS).size).to.equal(ALERT_KINDS.length);
    expect(REPORTED_KINDS.filter((kind) => METRIC_ALERT_KINDS.includes(kind))).to.deep.equal([]);
  });
});
