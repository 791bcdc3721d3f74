import { execFile } from 'node:child_process';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { useTemporaryFolder } from '../support/temporary-folder.ts';
import { bundleSimulation, linkPackages } from './bundle.ts';
import { PLANTED } from './planted.ts';
import type { PlantedFault } from './planted/fault.ts';

/**
 * Plants one fault after another and counts the seeds until the simulation finds it.
 *
 *     npm run test:simulation:planted                        all of them
 *     npm run test:simulation:planted -- --seeds 100 claim   those whose name contains `claim`, in 100 seeds at most
 *     npm run test:simulation:planted -- --skip 20           without the first 20 of the list
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: 'string', default: '1000' },
    skip: { type: 'string', default: '0' },
    processes: { type: 'string', default: '2' },
  },
});

interface Found {
  fault: PlantedFault;
  /** `undefined`: in none of the seeds. */
  seeds: number | undefined;
  /** The rule of the auditor that it has broken. */
  rule: string;
}

async function measure(fault: PlantedFault, file: string): Promise<Found> {
  await bundleSimulation(file, fault);
  const output = await new Promise<string>((resolve) => {
    execFile(
      process.execPath,
      [file, '--threads', '1', '--seeds', values.seeds],
      { maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => resolve(error === null ? stdout : `${stdout}\n${stderr}`),
    );
  });
  const [, seed, rule = ''] = /^seed (\d+): ([\w-]+):/m.exec(output) ?? [];
  const hasEnded = /^\d+ seeds, /m.test(output);
  if (seed === undefined && !hasEnded) {
    return { fault, seeds: 1, rule: `it crashes: ${output.trim().slice(-200)}` };
  }
  return { fault, seeds: seed === undefined ? undefined : Number(seed), rule };
}

const folder = useTemporaryFolder();
await linkPackages(folder);
const chosen = PLANTED.filter(
  ({ name, was }) =>
    positionals.length === 0 || positionals.some((word) => name.includes(word) || was === word),
);
const found: Found[] = [];
const waiting = [...chosen.entries()].slice(Number(values.skip));
const lane = async () => {
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const [at, fault] = next;
    const one = await measure(fault, path.join(folder, `planted-${at}.mjs`));
    found.push(one);
    const seeds = one.seeds === undefined ? 'never' : String(one.seeds);
    process.stdout.write(`${seeds.padStart(6)}  ${fault.was ?? ''}  ${fault.name}  [${one.rule}]\n`);
  }
};
await Promise.all(Array.from({ length: Number(values.processes) }, lane));
const missed = found.filter(({ seeds }) => seeds === undefined);
process.stdout.write(`${found.length - missed.length} of ${found.length} were found.\n`);
process.exitCode = missed.length > 0 ? 1 : 0;
