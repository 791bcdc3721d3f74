import { processIo } from './io.ts';
import { run } from './run.ts';

/** `npm run muster -- <command>` */
process.exitCode = await run(process.argv.slice(2), processIo());
