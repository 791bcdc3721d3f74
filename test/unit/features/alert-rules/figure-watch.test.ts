import { expect } from 'chai';
import { FigureWatch } from '../../../../src/features/alert-rules/figure-watch.ts';
import { RuleSet } from '../../../../src/features/alert-rules/rule-set.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { testClock } from '../../../support/test-clock.ts';

const MINUTE = 60_000;
const DEVICE = 'a-device';

describe('which figures of a device are compared with rules', () => {
  /** The statements that were sent to the database, which has no rows. */
  let asked: string[];
  let watch: FigureWatch;
  beforeEach(() => {
    testClock.stop();
    asked = [];
    const connection = {
      query({ name }: { name?: string }, answer: (error: null, result: { rows: [] }) => void) {
        if (name !== undefined) asked.push(name);
        answer(null, { rows: [] });
      },
    };
    const db = { client: { acquireConnection: async () => connection, releaseConnection: async () => {} } };
    const book = { metricRulesOf: () => new RuleSet([]) };
    watch = new FigureWatch({ db: db as never, log: quietLog, book });
  });
  afterEach(() => testClock.run());

  const heard = async (presence?: { state: 'connected' }): Promise<boolean> => {
    asked = [];
    const record = { deviceId: DEVICE, metrics: { cpuPercent: 95, ramPercent: 1, diskPercent: 1 } };
    watch.heard([{ ...record, ...(presence === undefined ? {} : { presence }) } as never]);
    await watch.settle();
    return asked.includes('alert-rule-organizations-read');
  };
  const hears = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute += 1) {
      await testClock.advance(MINUTE);
      expect(await heard()).to.equal(false);
    }
  };
  const sampled = () =>
    watch.sampled([
      {
        deviceId: DEVICE,
        orgId: 'an-organization',
        stretches: [{ beginsAt: 0, stepSeconds: 60, series: [] }],
      },
    ]);
  const back = { state: 'connected' } as const;

  it('are those of heartbeats after a quarter of an hour without samples', async () => {
    expect(await heard(back)).to.equal(false);
    await hears(14);
    await testClock.advance(2 * MINUTE);
    expect(await heard()).to.equal(true);
    await sampled();
    await hears(14);
    await testClock.advance(2 * MINUTE);
    expect(await heard()).to.equal(true);
  });

  it('are not those of heartbeats of a device that is back, before it had that time again', async () => {
    await sampled();
    await testClock.advance(24 * MINUTE);
    expect(await heard(back)).to.equal(false);
    await hears(14);
    await testClock.advance(2 * MINUTE);
    expect(await heard()).to.equal(true);
    await testClock.advance(24 * MINUTE);
    expect(await heard(back)).to.equal(false);
  });

  it('are those of heartbeats of a device without samples whose connection breaks again and again', async () => {
    expect(await heard(back)).to.equal(false);
    await hears(8);
    expect(await heard(back)).to.equal(false);
    await hears(6);
    await testClock.advance(2 * MINUTE);
    expect(await heard(back)).to.equal(true);
  });
});
