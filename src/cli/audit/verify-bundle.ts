import { clock } from '../../clock.ts';
import { type CommandIo, fileOf } from '../io.ts';
import type { VerifyOptions } from './verify-options.ts';
import { checkBundleFile, readKeysFile } from './bundle-file.ts';
import { printReport } from './report.ts';

export async function verifyBundle(io: CommandIo, file: string, options: VerifyOptions): Promise<number> {
  const since = clock.monotonic();
  const keys = options.keys === undefined ? undefined : await readKeysFile(fileOf(io, options.keys));
  const known = options.known === undefined ? undefined : await checkBundleFile(fileOf(io, options.known));
  if (known?.fault !== undefined) throw new Error(`${options.known} is itself not intact.`);
  const head = known?.head;
  const report = await checkBundleFile(fileOf(io, file), {
    ...(keys === undefined ? {} : { keys }),
    ...(head === undefined ? {} : { known: [head] }),
  });
  if (options.org !== undefined && options.org !== report.chainId) {
    throw new Error(`${file} holds the chain of ${report.chainId}.`);
  }
  if (known !== undefined && known.chainId !== report.chainId) {
    throw new Error(`${options.known} and ${file} hold different chains.`);
  }
  return printReport(
    io,
    {
      ...report,
      chains: 1,
      faults: report.fault === undefined ? [] : [report.fault],
      foreignKeys: [],
      keysFromBundle: keys === undefined,
    },
    clock.monotonic() - since,
    options.json === true,
  );
}
