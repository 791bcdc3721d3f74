/**
 * Every name that the agent and its watchdog write into their folder. Only these are removed when the machine leaves its
 * server, because somebody may have chosen a folder that holds other things, or have put things into the agent's. What
 * was restored from a backup (`backup/restored`) belongs to the machine and is not among them.
 */
export interface OwnNames {
  files?: RegExp;
  folders?: readonly (readonly [name: RegExp, content: OwnNames | 'everything'])[];
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const BATCHES: OwnNames = { files: /^\d{12}\.jsonl$/ };
const SHIPPING: OwnNames = {
  files: /^marks\.json$/,
  folders: [
    [/^events$/, BATCHES],
    [/^lines$/, BATCHES],
  ],
};
const DEVICE: OwnNames = {
  files: /^(commands\.journal(\.damaged-[\dTZ.-]+)?|inventory\.json)$/,
  folders: [[/^shipping$/, SHIPPING]],
};
const UPGRADES: OwnNames = {
  files:
    /^((agent-process|attempt|failures|offer|proven|trial|trusted-keys)\.json|apply-request\.json(\.taken)?|reserve|upgrades\.journal(\.1)?)$/,
  folders: [
    [/^downloads$/, { files: /^[0-9a-f]{64}\.part$/ }],
    [/^statuses$/, { files: /^\d{12}-[\w-]+\.json$/ }],
  ],
};
const BACKUP: OwnNames = {
  files: /^authorities\.pem$/,
  folders: [
    // Of restic: its cache, and, outside Linux, secrets that a killed run has left.
    [
      /^engine$/,
      {
        folders: [
          [/^cache$/, 'everything'],
          [/^secrets$/, 'everything'],
        ],
      },
    ],
    [/^processes$/, { files: /^\d+\.json$/ }],
    [/^restores$/, { files: /^.+\.json$/ }],
    [/^staging$/, { folders: [[UUID, 'everything']] }],
    [/^verified$/, { folders: [[UUID, 'everything']] }],
  ],
};

export const OWN_NAMES: OwnNames = {
  files:
    /^((credentials|settings|status|network|watchdog)\.json|ca\.pem|(agent|watchdog|credentials)\.lock\.\d+|commands-.+\.journal|inventory-.+\.json)$/,
  folders: [
    [/^devices$/, { folders: [[/^.+-[0-9a-f]{16}$/, DEVICE]] }],
    [/^upgrades$/, UPGRADES],
    [/^logs$/, { files: /^(agent|watchdog|watchdog-trial)\.jsonl(\.\d)?$/ }],
    [/^scripts$/, { folders: [[/^run-\w{6}$/, 'everything']] }],
    [/^unpacked$/, { folders: [[/^part-\w{6}$/, 'everything']] }],
    [/^backup$/, BACKUP],
    // Of earlier releases, below the id of a device.
    [/^shipping$/, { folders: [[UUID, SHIPPING]] }],
  ],
};
