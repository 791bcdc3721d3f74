import { expect } from 'chai';
import fc from 'fast-check';
import type { NotificationPolicy, NotificationSimulation } from '../../../src/dashboard/api/routes.ts';
import {
  ALERT_KINDS,
  kindOf,
  minutesText,
  wordsOfKind,
} from '../../../src/dashboard/features/alert-words/index.ts';
import {
  CHANNEL_TYPE_CHOICES,
  CHANNEL_TYPES,
  channelAddress,
} from '../../../src/dashboard/features/notifications/channel-types.ts';
import {
  nextStep,
  policyBody,
  policyFormOf,
  stepFormsOf,
} from '../../../src/dashboard/features/notifications/policy-form.ts';
import {
  daysText,
  hoursText,
  policyText,
} from '../../../src/dashboard/features/notifications/policy-text.ts';
import { nextMoment, tellingsOf } from '../../../src/dashboard/features/notifications/simulation.ts';
import { CHANNEL_FIELDS, ChannelType } from '../../../src/features/notifications/channel.schema.ts';
import { NewPolicy } from '../../../src/features/notifications/policy.schema.ts';

const SLACK = '00000000-0000-4000-8000-000000000001';
const TEAMS = '00000000-0000-4000-8000-000000000002';
const ANNA = '00000000-0000-4000-8000-000000000003';
const names = { organization: (id: string) => `Org ${id}`, site: (id: string) => `Site ${id}` };
const FROM_MONDAY = { days: [1, 2, 3, 4, 5], from: '08:00', to: '18:00', timezone: 'Europe/Vienna' };

const policy = (change: Partial<NotificationPolicy> = {}): NotificationPolicy => ({
  id: '00000000-0000-4000-8000-000000000009',
  orgId: 'Northway',
  partnerId: '00000000-0000-4000-8000-000000000008',
  position: 0,
  name: 'Night',
  enabled: true,
  match: { severities: ['high', 'critical'] },
  steps: [
    { afterMinutes: 0, channelIds: [SLACK], userIds: [] },
    { afterMinutes: 15, channelIds: [], userIds: [ANNA] },
  ],
  channels: [
    { id: SLACK, name: 'Slack', type: 'slack' },
    { id: TEAMS, name: 'Teams', type: 'teams' },
  ],
  users: [{ id: ANNA, name: 'Anna' }],
  repeatEveryMinutes: 60,
  groupBy: 'none',
  groupSeconds: 0,
  until: 'acknowledged',
  createdBy: null,
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
  ...change,
});
const text = (change: Partial<NotificationPolicy> = {}) => policyText(policy(change), names);

describe('the sentence about a notification policy', () => {
  it('says which alerts it takes, whom it tells when, and for how long', () => {
    expect(text()).to.equal(
      'Critical and high alerts of Org Northway: Slack at once, then Anna by mail after 15 minutes; again each hour until somebody acknowledges.',
    );
  });

  it('says what narrows the alerts', () => {
    const match = {
      kinds: ['device_offline', 'disk_full'],
      orgIds: ['A', 'B', 'C', 'D', 'E'],
      siteIds: ['Main'],
      hours: FROM_MONDAY,
    };
    expect(text({ orgId: null, match, repeatEveryMinutes: null, steps: [policy().steps[0]!] })).to.equal(
      'All alerts (device offline and disk full) of Org A, Org B, Org C and 2 other organizations at Site Main, if raised Monday to Friday, 08:00 to 18:00 (Europe/Vienna): Slack at once.',
    );
  });

  it('says of a policy for all organizations that it is for all', () => {
    expect(text({ orgId: null, match: {} })).to.match(/^All alerts of all organizations: /);
  });

  it('names every severity when all are chosen as no severity at all', () => {
    expect(text({ match: { severities: ['critical', 'high', 'medium', 'low', 'info'] } })).to.match(
      /^All alerts of/,
    );
  });

  it('says that steps go on, what is told together, and that it ends with the resolution', () => {
    expect(text({ repeatEveryMinutes: null, groupBy: 'site', until: 'resolved' })).to.match(
      /after 15 minutes; goes on until they are resolved\. Alerts of the same site are told together\.$/,
    );
  });

  it('has words for recipients that are gone', () => {
    expect(text({ channels: [], users: [] })).to.include(
      'a deleted channel at once, then somebody who is not told any more by mail after 15 minutes',
    );
  });
});

describe('times of notification policies', () => {
  it('are minutes, hours or days', () => {
    expect([1, 45, 60, 90, 120, 135, 1440, 1570, 2880].map(minutesText)).to.deep.equal([
      '1 minute',
      '45 minutes',
      '1 hour',
      '90 minutes',
      '2 hours',
      '2 hours 15 minutes',
      '1 day',
      '1 day 2 hours 10 minutes',
      '2 days',
    ]);
  });

  it('are days of a week that begins with Monday', () => {
    expect(daysText(undefined)).to.equal('every day');
    expect(daysText([6, 0])).to.equal('Saturday and Sunday');
    expect(daysText([0, 6, 5])).to.equal('Friday to Sunday');
    expect(daysText([1, 3, 0])).to.equal('Monday, Wednesday and Sunday');
    expect(daysText([2])).to.equal('Tuesday');
  });

  it('can pass midnight or last for a day', () => {
    expect(hoursText({ from: '22:00', to: '06:00', timezone: 'UTC' })).to.equal(
      'every day, 22:00 to 06:00 of the next day (UTC)',
    );
    expect(hoursText({ days: [0], from: '00:00', to: '00:00', timezone: 'UTC' })).to.equal(
      'Sunday, 24 hours from 00:00 (UTC)',
    );
  });
});

describe('the form of a notification policy', () => {
  it('sends what it was opened with', () => {
    const whole = policy({
      orgId: null,
      match: {
        severities: ['low'],
        kinds: ['device_offline'],
        orgIds: [SLACK],
        siteIds: [TEAMS],
        hours: FROM_MONDAY,
      },
      groupBy: 'device',
      groupSeconds: 45,
    });
    const body = policyBody(policyFormOf(whole), stepFormsOf(whole), true);
    const { name, match, steps, repeatEveryMinutes, groupBy, groupSeconds, until } = whole;
    expect(body).to.deep.equal({ name, match, steps, repeatEveryMinutes, groupBy, groupSeconds, until });
    expect(NewPolicy.safeParse(body).success).to.equal(true);
  });

  it('sends no empty lists, and no organizations for a policy of one', () => {
    const form = { ...policyFormOf(undefined), severities: [], orgIds: [SLACK] };
    expect(policyBody(form, [], false).match).to.deep.equal({});
  });

  it('puts a new step behind the others', () => {
    const first = nextStep([]);
    expect(first.afterMinutes).to.equal(0);
    const second = nextStep([{ ...first, afterMinutes: 30 }]);
    expect(second.afterMinutes).to.equal(45);
    expect(second.key).to.not.equal(first.key);
  });

  it('shows kinds as words, and finds them again', () => {
    expect(ALERT_KINDS.map((kind) => kindOf(wordsOfKind(kind)))).to.deep.equal([...ALERT_KINDS]);
    expect(kindOf('  Disk  full ')).to.equal('disk_full');
  });
});

describe('the types of notification channels', () => {
  it('ask for what the API wants of each', () => {
    expect(CHANNEL_TYPE_CHOICES.map(({ value }) => value)).to.deep.equal([...ChannelType.options]);
    for (const type of ChannelType.options) {
      const { details, secret } = CHANNEL_TYPES[type];
      const asked = (required: boolean) =>
        details.flatMap((field) => (field.required === required ? [field.name] : []));
      const { required, optional = [], secret: rule } = CHANNEL_FIELDS[type];
      expect(asked(true), type).to.deep.equal([...required]);
      expect(asked(false), type).to.deep.equal([...optional]);
      expect(secret === undefined ? 'none' : secret.required ? 'required' : 'optional', type).to.equal(rule);
    }
  });

  it('show where a channel leads', () => {
    const of = (type: ChannelType, details: object) =>
      channelAddress({ type, details } as Parameters<typeof channelAddress>[0]);
    expect(of('email', { address: 'a@example.com' })).to.equal('a@example.com');
    expect(of('ntfy', { server: 'https://ntfy.sh', topic: 'alerts' })).to.equal('ntfy.sh/alerts');
    expect(of('slack', {})).to.equal('Address kept secret');
    expect(of('webhook', { url: 'https://a.example/x' })).to.equal('https://a.example/x');
    expect(of('pagerduty', {})).to.equal('events.pagerduty.com');
  });
});

describe('the simulation', () => {
  type Told = NotificationSimulation['timeline'][number];
  const told = (at: string, reason: Told['reason'], channelId: string): Told => ({
    at,
    reason,
    step: 1,
    channelId,
    userId: null,
    name: channelId,
    suppressed: null,
  });

  it('shows those who are told at the same time together, and how long after the alert', () => {
    const begin = new Date('2026-03-01T03:00:00.000Z');
    const tellings = tellingsOf(
      [
        told('2026-03-01T03:00:00.000Z', 'raised', 'a'),
        told('2026-03-01T03:00:00.000Z', 'raised', 'b'),
        told('2026-03-01T03:15:00.000Z', 'escalated', 'c'),
        told('2026-03-01T05:15:00.000Z', 'repeated', 'a'),
      ],
      begin,
    );
    expect(tellings.map(({ after, told: those }) => [after, those.map(({ name }) => name)])).to.deep.equal([
      ['At once', ['a', 'b']],
      ['After 15 minutes', ['c']],
      ['After 2 hours 15 minutes', ['a']],
    ]);
  });

  it('says seconds of a message that waits for others', () => {
    const [telling] = tellingsOf(
      [told('2026-03-01T03:00:30.000Z', 'raised', 'a')],
      new Date('2026-03-01T03:00:00.000Z'),
    );
    expect(telling?.after).to.equal('After 30 seconds');
  });

  it('takes the next such day and time of this computer, within a week', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 6 }),
        fc.integer({ min: 0, max: 23 }),
        fc.date({ min: new Date('2020-01-01'), max: new Date('2030-01-01'), noInvalidDate: true }),
        (day, hour, now) => {
          const moment = nextMoment(day, `${String(hour).padStart(2, '0')}:30`, now);
          expect(moment.getDay()).to.equal(day);
          expect(moment.getTime()).to.be.greaterThan(now.getTime());
          // A change of the clocks can make a week an hour longer.
          expect(moment.getTime() - now.getTime()).to.be.at.most(7 * 86_400_000 + 3_600_000);
        },
      ),
    );
  });
});
