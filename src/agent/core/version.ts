/** Set if the program was built by `npm run build:agent`. */
declare const MUSTER_IS_PACKAGED: true | undefined;

/** The command that starts this program, for messages. */
export const PROGRAM = typeof MUSTER_IS_PACKAGED === 'undefined' ? 'npm run agent --' : 'muster-agent';

/** The release of the agent, which differs from the server's. */
export const AGENT_VERSION = '0.1.0';
