import { expect } from 'chai';
import type { Alert, Notification } from '../../../src/dashboard/api/routes.ts';
import { alertTimeline, toldText } from '../../../src/dashboard/features/alerts/alert-timeline.ts';

const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 3, minute)).toISOString();

const alert = (change: Partial<Alert> = {}): Alert => ({
  id: 'an-alert',
  orgId: 'an-organization',
  deviceId: null,
  kind: 'disk_full',
  ruleId: null,
  severity: 'high',
  status: 'active',
  title: 'A disk is full',
  message: 'It is.',
  details: {},
  count: 1,
  raisedAt: at(0),
  lastAt: at(0),
  acknowledgedAt: null,
  acknowledgedBy: null,
  resolvedAt: null,
  resolvedBy: null,
  note: null,
  resolution: null,
  createdAt: at(0),
  updatedAt: at(0),
  ...change,
});

const notification = (minute: number, change: Partial<Notification> = {}): Notification => ({
  id: `told ${minute}`,
  orgId: 'an-organization',
  partnerId: 'a-provider',
  groupId: 'a-conversation',
  policyId: 'a-policy',
  step: 1,
  reason: 'raised',
  status: 'sent',
  channelId: 'a-channel',
  userId: null,
  recipient: 'Slack',
  title: 'A disk is full',
  severity: 'high',
  alertCount: 1,
  alertId: 'an-alert',
  attempts: 1,
  error: null,
  createdAt: at(minute),
  sentAt: at(minute),
  ...change,
});

const kinds = (...given: Parameters<typeof alertTimeline>) => alertTimeline(...given).map(({ kind }) => kind);

describe('the timeline of an alert', () => {
  it('begins with the alert, and has the messages in their order, the newest first or not', () => {
    const steps = alertTimeline(alert(), [notification(15, { reason: 'escalated' }), notification(0)]);
    expect(steps.map(({ kind, at: when }) => [kind, when])).to.deep.equal([
      ['raised', at(0)],
      ['told', at(0)],
      ['told', at(15)],
    ]);
  });

  it('has who acknowledged, who resolved, and what they noted', () => {
    const ended = alert({
      acknowledgedAt: at(5),
      acknowledgedBy: 'anna',
      resolvedAt: at(9),
      resolvedBy: 'kim',
      note: 'Emptied.',
    });
    expect(alertTimeline(ended, []).slice(1)).to.deep.equal([
      { kind: 'acknowledged', at: at(5), by: 'anna', text: null },
      { kind: 'resolved', at: at(9), by: 'kim', text: 'Emptied.' },
    ]);
  });

  it('has why an alert resolved by itself, before those who were told of it', () => {
    const ended = alert({ resolvedAt: at(9), resolution: 'There is room again.' });
    const steps = alertTimeline(ended, [notification(9, { reason: 'resolved' })]);
    expect(steps[1]).to.deep.equal({ kind: 'resolved', at: at(9), by: null, text: 'There is room again.' });
    expect(steps[2]?.kind).to.equal('told');
  });

  it('says that the cause has come again, and places a message that waits by when it was added', () => {
    expect(
      kinds(alert({ count: 3, lastAt: at(20) }), [notification(10, { status: 'pending', sentAt: null })]),
    ).to.deep.equal(['raised', 'told', 'last']);
  });

  it('says who was told of what', () => {
    const told = (status: Notification['status'], reason: Notification['reason']) =>
      toldText({ recipient: 'Slack', status, reason });
    expect(told('sent', 'raised')).to.equal('Slack was told');
    expect(told('sent', 'resolved')).to.equal('Slack was told that it is resolved');
    expect(told('suppressed', 'repeated')).to.equal('Slack was not told');
    expect(told('failed', 'acknowledged')).to.equal('Slack could not be told that it is acknowledged');
    expect(told('pending', 'escalated')).to.equal('Slack is being told');
  });
});
