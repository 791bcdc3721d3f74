import { expect } from 'chai';
import {
  alertKindOf,
  alertText,
  clearedText,
  inUnit,
} from '../../../../src/features/alert-rules/alert-text.ts';
import { kindFamily } from '../../../../src/features/alerts/index.ts';

const ID = '01900000-0000-7000-8000-0123456789ab';
const since = new Date('2026-01-31T08:00:00Z');
const about = { rule: 'Watched', device: 'DESK-1' };

describe('the kinds of alerts of rules', () => {
  it('are the same for rules about the same cause', () => {
    const metric = { kind: 'metric', metric: 'cpuPercent', threshold: 1, forMinutes: 0 } as const;
    expect(alertKindOf(ID, { ...metric, operator: 'greaterThan' })).to.equal('cpu_high');
    expect(alertKindOf(ID, { ...metric, operator: 'lessThanOrEquals' })).to.equal('cpu_low');
    expect(alertKindOf(ID, { kind: 'offline', forMinutes: 5 })).to.equal('device_offline');
    expect(alertKindOf(ID, { kind: 'reported', alertKind: 'backup_failed' })).to.equal('backup_failed');
  });

  it('are of one rule for causes of its own, with a family that policies can name', () => {
    const event = alertKindOf(ID, { kind: 'event', source: 'Disk', count: 1, withinMinutes: 5 });
    expect(event).to.equal('log_event_0123456789ab');
    expect(kindFamily(event)).to.equal('log_event');
    const software = alertKindOf(ID, { kind: 'software', name: 'x', change: 'removed' });
    expect(kindFamily(software)).to.equal('software_change');
    const service = alertKindOf(ID, { kind: 'service', name: 'x', state: 'failed' });
    expect(kindFamily(service)).to.equal('service_state');
    expect(kindFamily('device_offline')).to.equal('device_offline');
  });
});

describe('the texts of alerts of rules', () => {
  it('name at most three volumes', () => {
    const condition = {
      kind: 'metric',
      metric: 'diskPercent',
      operator: 'greaterThan',
      threshold: 90,
      forMinutes: 60,
    } as const;
    const found = ['C:', 'D:', 'E:', 'F:', 'G:'].map((label) => ({ label, since, facts: { value: 95 } }));
    expect(alertText(condition, { ...about, found }).title).to.equal(
      'Disks C:, D:, E: and 2 more of DESK-1 are almost full',
    );
    expect(clearedText(condition, 'C:', 12.34)).to.equal('The disk C: is 12.3 % full.');
  });

  it('say figures in units that people use', () => {
    expect(inUnit('cpuPercent', 97.26)).to.equal('97.3 %');
    expect(inUnit('diskFreeBytes', 5 * 2 ** 30)).to.equal('5 GB');
    expect(inUnit('diskFreeBytes', 0)).to.equal('0 B');
    expect(inUnit('networkSentPerSecond', 1536)).to.equal('1.5 KB/s');
    expect(inUnit('uptimeSeconds', 3600)).to.equal('1 hour');
    expect(inUnit('uptimeSeconds', 30 * 86_400)).to.equal('720 hours');
    expect(inUnit('load', 4.25)).to.equal('4.3');
  });

  it('count events, and say the newest', () => {
    const condition = { kind: 'event', source: 'Disk', count: 3, withinMinutes: 60 } as const;
    const found = [{ label: '', since, facts: { count: 7, source: 'Disk', message: 'Bad block.' } }];
    expect(alertText(condition, { ...about, found })).to.deep.include({
      title: 'Watched: DESK-1',
      message: '7 events in 1 hour on DESK-1 fit the rule. The newest is from Disk: Bad block.',
    });
  });
});
