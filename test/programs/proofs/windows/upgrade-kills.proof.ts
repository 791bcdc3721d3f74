import { expect } from 'chai';
import { UPGRADE_STEPS } from '../../../../src/agent/os/releases/upgrade-files.ts';
import { eventually } from '../../../support/eventually.ts';
import { type DeviceBench, startDeviceBench } from '../../watchdog/support/device-bench.ts';
import { needsWine } from '../../windows/support/needs-wine.ts';
import { startWindowsHost, type WindowsHost } from '../../windows/support/windows-host.ts';

/**
 * Upgrades on Windows whose programs are killed: `UPGRADE_KILLS` of them, each at a random moment or as soon as a random
 * step is in the journal. Whatever was interrupted, an agent of a known version is connected afterwards, and the attempt
 * has ended once.
 */

const KILLS = Number(process.env['UPGRADE_KILLS'] ?? 100);
const PACE_MS = 3000;
const below = (bound: number) => Math.floor(Math.random() * bound);

/** What the command lines of the two programs contain. */
const VICTIMS = { watchdog: ' watchdog run ', agent: ' run --data-dir ' } as const;

describe('upgrades on Windows that are killed', function () {
  this.timeout(0);
  let bench: DeviceBench;
  let host: WindowsHost;

  before(async function () {
    needsWine(this);
    bench = await startDeviceBench({}, async () => (host = await startWindowsHost()));
    bench.start();
    await bench.runs('1.0.0', 120_000);
  });
  after(() => bench?.close());

  async function kill(): Promise<string[]> {
    const names = (['watchdog', 'agent'] as const).filter(() => Math.random() < 0.6);
    const killed: string[] = [];
    for (const name of names) {
      const found = await host.machine.processes(VICTIMS[name]);
      // The command line of the watchdog contains that of the agent.
      const others = name === 'agent' ? await host.machine.processes(VICTIMS.watchdog) : [];
      for (const pid of found.filter((one) => !others.includes(one))) {
        try {
          process.kill(pid, 'SIGKILL');
          killed.push(name);
        } catch {
          // It has just ended by itself.
        }
      }
    }
    return killed;
  }

  async function journalHas(step: string, from: number): Promise<void> {
    await eventually(
      () => bench.journal().catch(() => []),
      (lines) => lines.slice(from).some((line) => line.step === step) || lines.length < from,
      20_000,
    ).catch(() => {
      // An upgrade that is good has no step of a bad one.
    });
  }

  /** How the attempts of this version have ended, by the watchdog's report or over the socket; none may end twice. */
  const endsOf = (version: string): string[] => {
    const ends = [...bench.reports.flatMap(({ updates }) => updates), ...bench.hub.statuses]
      .filter(
        (status) => status.targetVersion === version && /^(completed|rolled_back|failed)$/.test(status.phase),
      )
      .map(({ phase, code }) => (code === undefined ? phase : `${phase} ${code}`));
    return [...new Set(ends)];
  };

  it('leave a connected agent of a known version', async () => {
    let current = '1.0.0';
    const ends = new Map<string, number>();
    const victims = new Map<string, number>();
    for (let n = 1; n <= KILLS; n += 1) {
      const version = `1.0.${n}`;
      const lines = (await bench.journal().catch(() => [])).length;
      const isBad = Math.random() < 0.25;
      bench.offer(await bench.agentRelease(version, isBad ? 'process.exit(1);' : ''));
      if (Math.random() < 0.5) await new Promise((resolve) => setTimeout(resolve, below(PACE_MS)));
      else await journalHas(UPGRADE_STEPS[below(UPGRADE_STEPS.length)] ?? 'downloaded', lines);
      for (const name of await kill()) victims.set(name, (victims.get(name) ?? 0) + 1);
      const found = await eventually(
        () => endsOf(version),
        ({ length }) => length > 0,
        90_000,
      ).catch(async (error: unknown) => {
        const journal = await bench.journal().catch(String);
        throw new Error(
          `${version} has not ended: ${String(error)}\n${JSON.stringify(journal)}\n${bench.output().slice(-4000)}`,
        );
      });
      const [end = ''] = found;
      expect(found, version).to.have.length(1);
      ends.set(end, (ends.get(end) ?? 0) + 1);
      if (end === 'completed') current = version;
      if (isBad) expect(end).not.to.equal('completed');
      await bench.runs(current, 60_000);
    }
    // oxlint-disable-next-line no-console -- the course of a long run
    console.info('      killed', Object.fromEntries(victims), Object.fromEntries(ends));
  });
});
