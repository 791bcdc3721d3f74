/** The release of the executable: of the launcher and the watchdog. The agent's script has its own. */
export const WATCHDOG_VERSION = '0.1.0';
