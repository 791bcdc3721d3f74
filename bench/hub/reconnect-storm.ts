import { readFileSync } from 'node:fs';
import { PASSWORD } from '../../test/support/factories.ts';
import { enrolledDevices } from './enrolled-devices.ts';
import type { Figure } from './figure.ts';
import { addressesOf, startLoad } from './load/load-process.ts';
import { percentile, rounded, sortedCopy } from './load/percentiles.ts';
import { startSignIns } from './load/sign-in-orders.ts';
import { LOAD_CORE, stayOn } from './processes.ts';
import { onDatabase, startMeasured } from './servers/server-process.ts';

const DEVICES = 10_000;
const SIGN_INS_PER_SECOND = 5;
const TURNS = 2;
const CALM_MS = 10_000;
/** By then every device has been let in or told when to come: after that it is as busy as admission allows. */
const RUSH_MS = 5000;

/**
 * 10,000 connected devices lose their connections in one moment and all come back in the next, without the spread that
 * agents give themselves, as behind a proxy that was started anew. Admission is the default; who is told to come later
 * waits as the agent program does. Meanwhile people sign in, five a second, from a process of their own. The storm lasts
 * until every device is back; the delay of the event loop is taken of its first five seconds, in which the rush is.
 * Worst of two storms; sign-ins of both.
 */
export const reconnectStorm: Figure = {
  number: 10,
  title: '10,000 devices come back at once',
  async measure() {
    stayOn(LOAD_CORE);
    const fleet = await enrolledDevices(DEVICES);
    const server = await startMeasured('muster', { env: onDatabase(fleet.database), nodeFlags: [] });
    const load = await startLoad();
    const people = await startSignIns();
    const signIns = {
      url: server.url,
      people: fleet.people,
      password: PASSWORD,
      perSecond: SIGN_INS_PER_SECOND,
    };
    try {
      await load.order('connect', {
        kind: 'agent',
        port: server.port,
        tokens: fleet.tokens,
        atOnce: 50,
        addresses: addressesOf(0),
        answersAsks: true,
      });
      await pause(CALM_MS);
      await server.measure('loopDelay');
      await people.start(signIns);
      await pause(CALM_MS);
      const calm = { ...(await people.finish()), delay: await server.measure('loopDelay') };
      const storms = [];
      for (let turn = 0; turn < TURNS; turn++) {
        await pause(CALM_MS);
        await server.measure('loopDelay');
        await people.start(signIns);
        const coming = load.order('comeBack', { spreadMs: 0 });
        await pause(RUSH_MS);
        const rush = await server.measure('loopDelay');
        const back = await coming;
        const rest = await server.measure('loopDelay');
        const signedIn = await people.finish();
        storms.push({ back, rush, rest, signedIn });
      }
      const times = sortedCopy(storms.flatMap(({ signedIn }) => signedIn.times));
      const worst = (values: number[]) => rounded(Math.max(...values));
      const measured = {
        loopDelayP99MsInTheRush: worst(storms.map(({ rush }) => rush.p99)),
        loopDelayP99MsAfterIt: worst(storms.map(({ rest }) => rest.p99)),
        loopDelayMaxMs: worst(storms.map(({ rush }) => rush.max)),
        loopDelayP99MsWhenCalm: rounded(calm.delay.p99),
        signInP50Ms: rounded(percentile(times, 0.5)),
        signInP99Ms: rounded(percentile(times, 0.99)),
        signInMaxMs: rounded(times.at(-1) ?? 0),
        signInP99MsWhenCalm: rounded(percentile(sortedCopy(calm.times), 0.99)),
        signIns: times.length,
        signInsRefused: storms.reduce((sum, { signedIn }) => sum + signedIn.refused, 0),
        allBackMsWorst: worst(storms.map(({ back }) => back.ms)),
        toldToComeLater: worst(storms.map(({ back }) => back.refusals)),
        connectionsFailed: worst(storms.map(({ back }) => back.failures)),
        // Where fewer may wait than come, some are dropped and come again after a second: docs/performance.md, Kernel.
        somaxconn: Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8')),
      };
      const common = { unit: 'ms', better: 'lower', measured } as const;
      return [
        {
          what: 'event loop delay p99 in the first 5 s',
          value: measured.loopDelayP99MsInTheRush,
          reach: 200,
          ...common,
        },
        { what: 'sign-in p99 in the storm', value: measured.signInP99Ms, reach: 1000, ...common },
      ];
    } finally {
      await people.stop();
      await load.stop();
      await server.stop();
      await fleet.database.drop();
    }
  },
};

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
