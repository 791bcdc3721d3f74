import { FileExistsError, writeWhole } from './whole-file.ts';

/** Writes an environment file that only its owner can read. It is never written over without `force`. */
export async function writeEnvironmentFile(
  file: string,
  text: string,
  { force }: { force: boolean },
): Promise<void> {
  try {
    await writeWhole(file, { replace: force }, (handle) => handle.writeFile(text));
  } catch (error) {
    if (!(error instanceof FileExistsError)) throw error;
    throw new Error(
      `${file} exists. It may hold the only copy of your keys, so it is replaced only with --force.`,
      {
        cause: error,
      },
    );
  }
}
