import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Dice } from './settings.ts';
import type { ProofDevice } from './device.ts';
import type { World } from './world.ts';

/** What can die in the middle of a backup or a restore, and how it comes back. */

export type Victim = 'agent' | 'engine' | 'server' | 'postgres';

/** The processes of restic that an agent has started. */
export async function enginesOf({ agentPid, source }: ProofDevice): Promise<number[]> {
  const parent = agentPid();
  if (parent === undefined) return [];
  const found: number[] = [];
  for (const name of await readdir('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    const words = line.split('\0');
    if (!words.some((word) => path.basename(word) === 'restic')) continue;
    const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    const parentPid = Number(status.slice(status.lastIndexOf(')') + 2).split(' ')[1]);
    if (parentPid === parent || words.includes(source)) found.push(pid);
  }
  return found;
}

export interface Strike {
  victim: Victim;
  /** False where there was nothing to kill any more. */
  hit: boolean;
}

/** kill -9, and whatever was killed is started again. */
export async function strike(world: World, device: ProofDevice, victim: Victim, dice: Dice): Promise<Strike> {
  const pause = () => new Promise((resolve) => setTimeout(resolve, dice.below(1500)));
  switch (victim) {
    case 'agent': {
      await device.kill();
      await pause();
      device.startLater();
      return { victim, hit: true };
    }
    case 'engine': {
      // Between two of its runs there is none for a moment.
      let engines = await enginesOf(device);
      for (let tries = 0; engines.length === 0 && tries < 50; tries++) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        engines = await enginesOf(device);
      }
      for (const pid of engines) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // It has just ended by itself.
        }
      }
      return { victim, hit: engines.length > 0 };
    }
    case 'postgres':
      await world.alone(async () => {
        await world.killPostgres();
        await pause();
        await world.killServer();
        await world.startServer();
      });
      return { victim, hit: true };
    case 'server':
      await world.alone(async () => {
        await world.killServer();
        await pause();
        await world.startServer();
      });
      return { victim, hit: true };
    default:
      return victim satisfies never;
  }
}
