import { bundlePrograms } from './bundle-programs.ts';

/** Part of `npm run build`: the command line in a few files, because it is started for each command. */
await bundlePrograms(['src/cli/muster.ts']);
