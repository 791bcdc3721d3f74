import { readFileSync } from 'node:fs';
import { PASSWORD } from '../../test/support/factories.ts';
import { enrolledDevices } from './enrolled-devices.ts';
import {
  type Figure,
  percentile,
  rounded,
  sortedCopy,
  LOAD_CORE,
  stayOn,
  onDatabase,
  startMeasured,
} from './harness.ts';
import { addressesOf, startLoad, startSignIns } from './load/load-process.ts';

const DEVICES = 10_000;
const SIGN_INS_PER_SECOND = 5;
const TURNS = 2;
const CALM_MS = 10_000;
/** By then every device was admitted or told when to retry; afterwards the load is what admission control allows. */
const RUSH_MS = 5000;

/**
 * 10,000 connected devices lose their connections at the same moment and reconnect at once, without the random delay
 * of real agents, as after the restart of a proxy. Admission control has its defaults; refused devices wait as the
 * agent program does. Meanwhile people sign in, five per second, from a separate process. The storm lasts until every
 * device is back; the event loop delay is measured in its first five seconds, which have the highest load. The values
 * are the worse of two storms, and the sign-ins of both.
 */
export const reconnectStorm: Figure = {
  number: 10,
  title: '10,000 devices reconnect at once',
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
        // A smaller accept queue drops some connections, which retry after a second: docs/performance.md, Kernel.
        somaxconn: Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8')),
      };
      const common = { unit: 'ms', better: 'lower', measured } as const;
      return [
        {
          what: 'event loop delay p99 in the first 5 s',
          value: measured.loopDelayP99MsInTheRush,
          target: 200,
          ...common,
        },
        { what: 'sign-in p99 during the storm', value: measured.signInP99Ms, target: 1000, ...common },
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
