import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { useTemporaryFolder } from '../support/temporary-folder.ts';
import { bundleSimulation, linkPackages } from './bundle.ts';

/** Bundles `main.ts`, which says what it takes, and runs it: threads cannot begin with sources. */
const folder = useTemporaryFolder();
await linkPackages(folder);
const file = path.join(folder, 'simulation.mjs');
await bundleSimulation(file);
// Most of what a world makes is soon forgotten: with more room for it, less is moved.
const program = spawn(process.execPath, ['--max-semi-space-size=32', file, ...process.argv.slice(2)], {
  stdio: 'inherit',
});
const [code] = (await once(program, 'close')) as [number | null];
process.exitCode = code ?? 1;
