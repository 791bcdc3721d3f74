/** Set where the program was built by `npm run build:agent`. */
declare const MUSTER_IS_PACKAGED: true | undefined;

/** How this program is started, for texts that tell somebody what to type. */
export const PROGRAM = typeof MUSTER_IS_PACKAGED === 'undefined' ? 'npm run agent --' : 'muster-agent';
