import { processIo } from './io.ts';
import { rotateSecrets } from './reseal-secrets.ts';

/** `npm run rotate-secrets` */
process.exitCode = await rotateSecrets(processIo());
