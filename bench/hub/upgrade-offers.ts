import { newId } from '../../src/platform/ids.ts';
import type { Figure } from './figure.ts';
import { addressesOf, startLoad } from './load/load-process.ts';
import { median, rounded } from './load/percentiles.ts';
import { LOAD_CORE, stayOn } from './processes.ts';
import { LIFTED_ADMISSION, startMeasured } from './servers/server-process.ts';

const DEVICES = 5000;
const IN_FLIGHT = 500;
const WARM_UP_SECONDS = 4;
const SECONDS = 4;
const TURNS = 8;

/**
 * Heartbeats of 5,000 devices of 1,000 organizations with pins and windows: CPU time of the hub with upgrade offers,
 * relative to the same hub without. The two are loaded in turn; the value is the median of the ratios of the turns.
 */
export const upgradeOffers: Figure = {
  number: 14,
  title: 'Heartbeats with upgrade offers, 1,000 organizations',
  async measure() {
    stayOn(LOAD_CORE);
    const tokens = Array.from({ length: DEVICES }, newId);
    const sides = [];
    for (const [index, offers] of ['0', '1'].entries()) {
      const server = await startMeasured('offers-hub', {
        env: { ...LIFTED_ADMISSION, BENCH_OFFERS: offers },
      });
      const load = await startLoad();
      const addresses = addressesOf(index);
      await load.order('connect', {
        kind: 'agent',
        port: server.port,
        tokens,
        atOnce: 100,
        addresses,
        answersAsks: true,
      });
      await load.order('closedLoop', { seconds: WARM_UP_SECONDS, inFlight: IN_FLIGHT });
      sides.push({ server, load });
    }
    try {
      const micros: number[][] = [];
      for (let turn = 0; turn < TURNS; turn++) {
        // Which of them is first changes, so that a drift of the machine favors neither.
        const order = turn % 2 === 0 ? sides : sides.toReversed();
        const inTurn = [];
        for (const { server, load } of order) {
          const before = await server.measure('usage');
          const { roundTrips } = await load.order('closedLoop', { seconds: SECONDS, inFlight: IN_FLIGHT });
          const after = await server.measure('usage');
          inTurn.push((after.cpuMicros - before.cpuMicros) / roundTrips);
        }
        micros.push(turn % 2 === 0 ? inTurn : inTurn.toReversed());
      }
      const ratios = micros.map(([without = 1, withOffers = 1]) => without / withOffers);
      const measured = {
        microsWithout: rounded(median(micros.map(([without = 0]) => without))),
        microsWith: rounded(median(micros.map(([, withOffers = 0]) => withOffers))),
        ratioMin: rounded(Math.min(...ratios)),
        ratioMax: rounded(Math.max(...ratios)),
      };
      return [
        {
          what: 'heartbeats with upgrade offers, relative to none',
          value: rounded(median(ratios)),
          target: 0.98,
          unit: 'ratio',
          better: 'higher',
          measured,
        },
      ];
    } finally {
      for (const { server, load } of sides) {
        await load.stop();
        await server.stop();
      }
    }
  },
};
