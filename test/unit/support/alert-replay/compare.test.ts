import { expect } from 'chai';
import { MINUTE_MS } from '../../../../src/clock.ts';
import {
  type Circumstances,
  differences,
  type Span,
  type Unseen,
  withCooled,
} from '../../../support/alert-replay/compare.ts';

/** Alerts as [raised, resolved], in minutes. */
type Alerts = readonly (readonly [raisedAt: number, resolvedAt: number | null, part?: string])[];

const alertsOf = (alerts: Alerts) =>
  alerts.map(([raisedAt, resolvedAt, part]) => ({
    part,
    raisedAt: raisedAt * MINUTE_MS,
    resolvedAt: resolvedAt === null ? null : resolvedAt * MINUTE_MS,
  }));

/** Rounds each half minute of a day, except while the servers are down. */
const roundsOf = (down?: { from: number; to: number }) =>
  Array.from({ length: 2880 }, (_, place) => place / 2)
    .filter((at) => down === undefined || at < down.from || at > down.to)
    .map((at) => at * MINUTE_MS);

describe('the comparison of a preview with what was raised', () => {
  /** All in minutes. */
  const compared = (
    previewed: Alerts,
    raised: Alerts,
    {
      unseen = [],
      unsure = [],
      down,
      cooldown = 0,
      uncooled,
      ...more
    }: {
      unseen?: Unseen[];
      unsure?: Span[];
      down?: Span;
      cooldown?: number;
      uncooled?: Alerts;
    } & Partial<
      Pick<Circumstances, 'countsEach' | 'endToldAt' | 'isSeenAt' | 'endsEarlierMs' | 'toldAt' | 'hasPart'>
    > = {},
  ) => {
    const inMs = <S extends Span>(span: S): S => ({
      ...span,
      from: span.from * MINUTE_MS,
      to: span.to * MINUTE_MS,
    });
    const circumstances: Circumstances = {
      from: 0,
      to: 1400 * MINUTE_MS,
      rounds: roundsOf(down),
      toldAt: (at) => at,
      unseen: unseen.map(inMs),
      unsure: unsure.map(inMs),
      cooldownMs: cooldown * MINUTE_MS,
      endsWithinMs: MINUTE_MS,
      ...more,
    };
    const all = alertsOf(previewed);
    const found = uncooled === undefined ? all : withCooled(all, alertsOf(uncooled));
    return differences(found, alertsOf(raised), circumstances);
  };
  const equal = { compared: 1, found: [] };
  const passed = { compared: 0, found: [] };

  it('finds alerts equal, missing and too many', () => {
    expect(compared([[100, 120]], [[100.5, 120.5]])).to.deep.equal(equal);
    expect(compared([[100, 120]], []).found).to.have.lengthOf(1);
    expect(compared([], [[100, 120]]).found).to.have.lengthOf(1);
    expect(compared([[100, 120]], [[102, 120]]).found).to.have.lengthOf(2);
    expect(compared([[100, 120]], [[100, 124]]).found).to.have.lengthOf(1);
  });

  describe('of what began while the rule did not look', () => {
    const unseen = [{ from: 0, to: 200 }];

    it('expects it within ten minutes', () => {
      expect(compared([[150, 230]], [[205, 230]], { unseen })).to.deep.equal(equal);
      expect(compared([[150, 230]], [], { unseen }).found).to.have.lengthOf(1);
      expect(compared([[150, 230]], [[215, 230]], { unseen }).found).to.have.lengthOf(2);
      expect(compared([[150, 190]], [], { unseen })).to.deep.equal(passed);
    });

    it('allows that it is over before a round of everything comes', () => {
      expect(compared([[150, 204.5]], [], { unseen })).to.deep.equal(passed);
      expect(compared([[150, 204.5]], [[202, 204.5]], { unseen })).to.deep.equal(equal);
    });

    it('expects it after the servers are back', () => {
      const down = { from: 190, to: 215 };
      expect(compared([[150, 300]], [[215.5, 300]], { unseen, down })).to.deep.equal(equal);
      expect(compared([[150, 300]], [[240, 300]], { unseen, down }).found).to.have.lengthOf(2);
      // It was over before a round came at all.
      expect(compared([[150, 210]], [], { unseen, down })).to.deep.equal(passed);
    });
  });

  it('lets only what returns in a cooldown wait', () => {
    const first = [100, 120] as const;
    const cooldown = 60;
    expect(compared([first, [180, 300]], [first, [188, 300]], { cooldown }).found).to.deep.equal([]);
    expect(compared([first, [180, 184]], [first], { cooldown }).found).to.deep.equal([]);
    expect(compared([first, [250, 300]], [first, [258, 300]], { cooldown }).found).to.have.lengthOf(2);
    expect(compared([[250, 254]], [], { cooldown }).found).to.have.lengthOf(1);
  });

  it('expects what returned before a round could see the end as one alert, unless each time counts', () => {
    const alerts: Alerts = [
      [100, 120.2],
      [120.3, 150],
    ];
    expect(compared(alerts, [[100, 150]])).to.deep.equal(equal);
    expect(compared(alerts, [[100, 120.5]]).found).to.have.lengthOf(1);
    const endToldAt = (at: number) => Math.max(at, 150 * MINUTE_MS);
    const each = { countsEach: true, endToldAt };
    const twice: Alerts = [
      [100, 150],
      [120.5, 150],
    ];
    expect(compared(alerts, twice, each)).to.deep.equal({ compared: 2, found: [] });
    expect(compared(alerts, [[100, 150]], each).found).to.have.lengthOf(1);
  });

  describe('of what the preview leaves to a cooldown', () => {
    const first = [100, 120.2] as const;
    const uncooled: Alerts = [first, [150.2, 170]];
    const cooldown = 60;
    const isOffline = { cooldown, countsEach: true };
    /** The device was back too shortly for a round to see it. */
    const isUnseen = (at: number) => Math.max(at, 170 * MINUTE_MS);

    it('expects nothing if the cooldown has begun', () => {
      expect(compared([first], [[100, 120.5]], { ...isOffline, uncooled })).to.deep.equal(equal);
      const twice: Alerts = [
        [100, 120.5],
        [150.5, 170],
      ];
      expect(compared([first], twice, { ...isOffline, uncooled }).found).to.have.lengthOf(1);
    });

    it('expects it to be raised if no round has seen the end with which the cooldown would have begun', () => {
      const more = { ...isOffline, uncooled, endToldAt: isUnseen };
      const twice: Alerts = [
        [100, 170],
        [150.5, 170],
      ];
      expect(compared([first], twice, more)).to.deep.equal({ compared: 2, found: [] });
      expect(compared([first], [[100, 170]], more).found).to.have.lengthOf(1);
      // The preview shows it at the end of the cooldown, if it still lasts then.
      const longer: Alerts = [first, [150.2, 190]];
      const previewed: Alerts = [first, [180.2, 190]];
      const endToldAt = (at: number) => Math.max(at, 190 * MINUTE_MS);
      const lasting = { ...more, uncooled: longer, endToldAt };
      const raised: Alerts = [
        [100, 190],
        [150.5, 190],
      ];
      expect(compared(previewed, raised, lasting)).to.deep.equal({ compared: 2, found: [] });
      expect(compared(previewed, [[100, 190]], lasting).found).to.have.lengthOf(1);
      expect(compared(previewed, [...raised, [180.5, 190]], lasting).found).to.have.lengthOf(1);
    });

    it('expects it to be raised if no round could raise what came before', () => {
      const isSeenAt = (round: number) => round > 110 * MINUTE_MS;
      const more = { ...isOffline, uncooled, isSeenAt };
      expect(compared([first], [[150.5, 170]], more)).to.deep.equal(equal);
      expect(compared([first], [], more).found).to.have.lengthOf(1);
    });

    it('expects it to be raised if what waited for the cooldown before was over when a round of everything came', () => {
      const before = [50, 70.2] as const;
      // The preview shows what has waited at the end of the cooldown. Really, it may be over by then.
      const previewed: Alerts = [before, [130.2, 135]];
      const all: Alerts = [before, [120, 135], [170.2, 240]];
      const more = { ...isOffline, uncooled: all };
      const raised: Alerts = [
        [50, 70.5],
        [170.5, 240],
      ];
      expect(compared(previewed, raised, more)).to.deep.equal({ compared: 2, found: [] });
      expect(compared(previewed, [[50, 70.5]], more).found).to.have.lengthOf(1);
      // If it was raised, the cooldown has begun.
      const waited: Alerts = [
        [50, 70.5],
        [133, 135],
      ];
      expect(compared(previewed, waited, more)).to.deep.equal({ compared: 2, found: [] });
      expect(compared(previewed, [...waited, [170.5, 240]], more).found).to.have.lengthOf(1);
    });

    it('expects the alert to go on if it returned before a round could see the end', () => {
      const uncooledSoon: Alerts = [
        [100, 120.2],
        [120.3, 150],
      ];
      const more = { cooldown, uncooled: uncooledSoon };
      expect(compared([[100, 120.2]], [[100, 150]], more)).to.deep.equal(equal);
      expect(compared([[100, 120.2]], [[100, 120.5]], more).found).to.have.lengthOf(1);
    });
  });

  describe('of a device that left the rule', () => {
    const unseen: Unseen[] = [{ from: 200, to: 300, ends: true }];

    it('expects what stood to be resolved, and raised again if it still lasts later', () => {
      const both: Alerts = [
        [100, 206],
        [304, 400],
      ];
      expect(compared([[100, 400]], both, { unseen })).to.deep.equal({ compared: 2, found: [] });
      expect(compared([[100, 400]], [[100, 400]], { unseen }).found).to.have.lengthOf(2);
      expect(compared([[100, 250]], [[100, 206]], { unseen })).to.deep.equal(equal);
      expect(compared([[100, 250]], [[100, 250]], { unseen }).found).to.have.lengthOf(1);
    });

    it('expects nothing meanwhile', () => {
      expect(compared([[230, 260]], [], { unseen })).to.deep.equal(passed);
      expect(compared([[230, 260]], [[230, 260]], { unseen }).found).to.have.lengthOf(1);
    });
  });

  describe('of what is judged anew', () => {
    const unseen: Unseen[] = [{ from: 0, to: 200, anew: true }];

    it('allows that it is raised at any time until it is over, or not at all', () => {
      expect(compared([[100, 400]], [[350, 400]], { unseen })).to.deep.equal(equal);
      expect(compared([[100, 400]], [], { unseen })).to.deep.equal(passed);
      expect(compared([[100, 400]], [[410, 420]], { unseen }).found).to.have.lengthOf(1);
      expect(compared([[300, 400]], [[350, 400]], { unseen }).found).to.have.lengthOf(2);
    });

    it('allows that an alert of before stands', () => {
      expect(compared([[300, 400]], [[150, 400]], { unseen })).to.deep.equal(passed);
      expect(compared([[300, 400]], [[150, 250]], { unseen }).found).to.have.lengthOf(1);
    });
  });

  it('says nothing of times of which nothing is sure', () => {
    const unsure: Span[] = [{ from: 200, to: 300 }];
    expect(compared([[250, 260]], [[100, 240]], { unsure })).to.deep.equal(passed);
    expect(compared([[310, 320]], [[100, 190]], { unsure }).found).to.have.lengthOf(2);
  });

  it('allows the end to be seen where what led to it was told, if that is said', () => {
    // Between 105 and 120, nothing is told.
    const toldAt = (at: number) => (at <= 105 * MINUTE_MS ? at : Math.max(at, 120 * MINUTE_MS));
    const alert = [100, 109] as const;
    expect(compared([alert], [[100, 104]], { toldAt }).found).to.have.lengthOf(1);
    const endsEarlierMs = 5 * MINUTE_MS;
    expect(compared([alert], [[100, 104]], { toldAt, endsEarlierMs })).to.deep.equal(equal);
    expect(compared([alert], [[100, 102]], { toldAt, endsEarlierMs }).found).to.have.lengthOf(1);
    expect(compared([alert], [[100, 122]], { toldAt, endsEarlierMs }).found).to.have.lengthOf(1);
  });

  it('expects another volume to be counted in the alert that stands, and all to be resolved together', () => {
    const alerts: Alerts = [
      [100, 120.2, 'C'],
      [120.3, 150, 'E'],
    ];
    const twice: Alerts = [
      [100, 150],
      [120.5, 150],
    ];
    expect(compared(alerts, twice)).to.deep.equal({ compared: 2, found: [] });
    expect(compared(alerts, [[100, 150]]).found).to.have.lengthOf(1);
  });

  it('allows a volume that is out already to have an alert of its own, before that of the next one', () => {
    // The preview waits for five samples without it, and counts the other one in its alert.
    const alerts: Alerts = [
      [100, 180, 'E'],
      [150, 180, 'C'],
    ];
    const apart: Alerts = [
      [100, 148],
      [150, 180],
    ];
    const hasPart = (part: string, at: number) => part !== 'E' || at < 147 * MINUTE_MS;
    const endsEarlierMs = 5 * MINUTE_MS;
    const both = { compared: 2, found: [] };
    expect(compared(alerts, apart, { endsEarlierMs, hasPart })).to.deep.equal(both);
    const together: Alerts = [
      [100, 180],
      [150, 180],
    ];
    expect(compared(alerts, together, { endsEarlierMs, hasPart })).to.deep.equal(both);
    const found = (first: number, has: (part: string, at: number) => boolean) =>
      compared(
        alerts,
        [
          [100, first],
          [150, 180],
        ],
        { endsEarlierMs, hasPart: has },
      ).found.length;
    expect(found(148, () => true)).to.equal(1);
    expect(found(140, hasPart)).to.equal(1);
    expect(found(160, hasPart)).to.equal(1);
  });

  it('expects nothing of what is over before the round that would raise it', () => {
    const isSeenAt = (round: number) => round < 100 * MINUTE_MS;
    expect(compared([[100, 102]], [], { isSeenAt })).to.deep.equal(passed);
    expect(compared([[90, 102]], [], { isSeenAt }).found).to.have.lengthOf(1);
  });
});
