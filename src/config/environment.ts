import type { Values } from './area.ts';

/** The environment of this process, for a program that passes it on to its parts. */
export const environmentOfProcess = (): Values => process.env;
