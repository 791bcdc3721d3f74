import path from 'node:path';
import { expect } from 'chai';
import { UPGRADE_STEPS } from '../../../../src/agent/os/releases/upgrade-files.ts';
import { eventually } from '../../../support/eventually.ts';
import { type DeviceBench, effectsIn, startDeviceBench } from '../../watchdog/support/device-bench.ts';

const BACK = ['rolling_back', 'switched_back', 'rolled_back'];
/** Steps of a good release, and those of a bad one. */
const isBack = (step: string) => BACK.includes(step);

/**
 * kill -9 of the process that writes a step into the journal, before and after the line, at each step there is. Whatever
 * was interrupted, an agent of a known version is connected afterwards, the server knows how the attempt ended, and each
 * command took effect once.
 */
describe('an upgrade that is interrupted by kill -9', function () {
  this.timeout(180_000);
  let bench: DeviceBench;

  afterEach(() => bench.close());

  for (const component of ['agent', 'watchdog'] as const) {
    for (const step of UPGRADE_STEPS) {
      // A watchdog is not switched before it has proved itself, and it is stopped by its own restart.
      for (const when of ['before', 'after'] as const) {
        it(`of the ${component}, ${when} "${step}"`, async () => {
          bench = await startDeviceBench();
          const effects = path.join(bench.dataDir, 'effects');
          const command = (name: string) =>
            bench.hub.command(
              'script.run',
              {
                language: 'bash',
                content: `echo ${name} >> "$PARAM_effects"`,
                parameters: { effects },
                timeoutSeconds: 30,
              },
              { id: name },
            );
          bench.start();
          await bench.runs('1.0.0');
          await command('before');
          await eventually(
            () => effectsIn(effects),
            (lines) => lines.length === 1,
          );
          await bench.dieAt(step, when);
          const bad = isBack(step) ? 'process.exit(1);' : '';
          const upgrade =
            component === 'agent'
              ? await bench.agentRelease('1.1.0', bad)
              : await bench.watchdogRelease('1.1.0', bad);
          bench.offer(upgrade);
          await eventually(
            () => bench.hasDied(),
            (has) => has,
            20_000,
          ).catch((error: unknown) => {
            throw new Error(`Nobody died: ${String(error)}\n${bench.output()}`);
          });
          const end = isBack(step) ? /^rolled_back/ : /^(completed|rolled_back INTERRUPTED)$/;
          await eventually(
            () => bench.phases(component),
            (phases) => phases.some((phase) => end.test(phase)),
            60_000,
          ).catch(() => {
            throw new Error(`${bench.phases(component).join(', ')}\n${bench.output()}`);
          });
          const isDone = bench.phases(component).includes('completed');
          await bench.runs(component === 'agent' && isDone ? '1.1.0' : '1.0.0', 40_000);
          if (component === 'watchdog' && isDone) {
            await eventually(
              () => bench.hub.lastHeartbeat?.watchdogVersion,
              (version) => version === '1.1.0',
              20_000,
            );
          }
          // The command is sent again, as the ledger does after a lost receipt, and another one follows.
          await command('before');
          await eventually(
            async () => {
              await command('after').catch(() => {});
              return effectsIn(effects);
            },
            (lines) => lines.includes('after'),
            20_000,
          );
          expect(await effectsIn(effects)).to.deep.equal(['before', 'after']);
          // One attempt, which has ended once.
          const ends = bench.phases(component).filter((phase) => /^(completed|rolled_back)/.test(phase));
          expect(new Set(ends).size, ends.join()).to.equal(1);
        });
      }
    }
  }
});
