import type { Page } from 'playwright-core';
import type { Cast } from './cast.ts';
import type { KeysOnly, Pointer } from './walker.ts';

/** One job of a technician, from the overview to the visible result, in the fewest steps that were found. */
export interface Job {
  name: string;
  /** The name of its picture. */
  picture: string;
  pointer: (walker: Pointer, cast: Cast) => Promise<void>;
  keys: (walker: KeysOnly, cast: Cast) => Promise<void>;
}

const SCRIPT = 'Free space on the system disk';
const GROUP = 'Pilot machines';
const PROGRAM = 'TeamViewer';
const FILE = 'price list.csv';
const PERSON = 'tess';

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name });
const link = (page: Page, name: string) => page.getByRole('link', { name, exact: true });
const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name, exact: true });
const dialog = (page: Page) => page.getByRole('dialog').last();
const rows = (page: Page) => page.getByRole('row');
const inRail = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name, exact: true });

/** By pointer, a thing with a name is found by the search of the header: opened, typed into, and chosen from. */
async function openByName(walker: Pointer, text: string, name: string | RegExp, of = heading): Promise<void> {
  const { page } = walker;
  await walker.press(
    'Search',
    button(page, 'Search'),
    page.getByRole('textbox', { name: 'Search', exact: true }),
  );
  await page.keyboard.type(text);
  const entry = page.getByRole('dialog').getByRole('button', { name }).first();
  await walker.press(`“${text}”`, entry, of(page, text === name ? text : String(name)));
}

/** The page of a device, whose search text is its name. */
const openDevice = (walker: Pointer, name: string) => openByName(walker, name, name);

export const JOBS: readonly Job[] = [
  {
    name: 'Find a device by its user',
    picture: 'by-user',
    pointer: (walker, { user }) => openByName(walker, user.name, user.device),
    keys: (walker, { user }) =>
      walker.command(user.name, new RegExp(`${user.device}.*Last user`), heading(walker.page, user.device)),
  },
  {
    name: 'Why is a device offline',
    picture: 'why-offline',
    async pointer(walker, { offline }) {
      const { page } = walker;
      await openDevice(walker, offline);
      const tab = page.getByRole('tab', { name: 'History' });
      await walker.press('History', tab, page.getByRole('listitem'));
    },
    keys: (walker, { offline }) =>
      walker.command(
        `why ${offline}`,
        /^What happened to/,
        walker.page.getByRole('tabpanel').getByRole('listitem'),
      ),
  },
  {
    name: 'Its event log, filtered',
    picture: 'event-log',
    async pointer(walker, { failing }) {
      const { page } = walker;
      await openDevice(walker, failing);
      await walker.press(
        'Event log',
        page.getByRole('tab', { name: 'Event log' }),
        heading(page, `Event log of ${failing}`),
      );
      await walker.press(
        'Error',
        page.locator('label').filter({ hasText: /^Error \d/ }),
        page.getByRole('row').nth(2),
      );
    },
    keys: (walker, { failing }) =>
      walker.command(
        `errors ${failing}`,
        /^Errors and warnings/,
        rows(walker.page).filter({ hasText: 'has a bad block' }),
      ),
  },
  {
    name: 'A script on five devices (a group)',
    picture: 'script',
    async pointer(walker) {
      const { page } = walker;
      await openByName(walker, SCRIPT, SCRIPT, (shown) => button(shown, /^Run/));
      await walker.press('Run …', button(page, /^Run/), dialog(page));
      await walker.press(
        'A group',
        dialog(page).getByText('A group'),
        dialog(page).getByRole('combobox', { name: 'Group' }),
      );
      await walker.press(
        'Group',
        dialog(page).getByRole('combobox', { name: 'Group' }),
        page.getByRole('option'),
      );
      await walker.press(GROUP, page.getByRole('option', { name: new RegExp(GROUP) }), dialog(page));
      await walker.press(
        'Run',
        dialog(page).getByRole('button', { name: 'Run', exact: true }),
        rows(page).nth(5),
      );
    },
    async keys(walker) {
      const { page } = walker;
      const run = dialog(page).getByRole('button', { name: 'Run', exact: true });
      await walker.command(`run free space on ${GROUP}`, /on the group/, run);
      await walker.press('Run', run, rows(page).nth(5));
    },
  },
  {
    name: 'Restart a machine',
    picture: 'restart',
    async pointer(walker, { restarted: [name] }) {
      const { page } = walker;
      await openDevice(walker, name);
      await walker.press('More', button(page, 'More'), page.getByRole('menuitem'));
      await walker.press(
        'Restart the machine',
        page.getByRole('menuitem', { name: 'Restart the machine' }),
        dialog(page),
      );
      await walker.press(
        'Restart',
        dialog(page).getByRole('button', { name: 'Restart' }),
        page.getByText('was asked to restart'),
      );
    },
    async keys(walker, { restarted: [, name] }) {
      const { page } = walker;
      const restart = dialog(page).getByRole('button', { name: 'Restart', exact: true });
      await walker.command(`reboot ${name}`, /^Restart /, restart);
      await walker.press('Restart', restart, page.getByText('was asked to restart'));
    },
  },
  {
    name: 'Who has which software',
    picture: 'software',
    async pointer(walker) {
      const { page } = walker;
      await walker.press('Software', inRail(page, 'Software'), heading(page, 'Software'));
      const field = page.getByRole('textbox', { name: 'Search programs' });
      await walker.fill(`“${PROGRAM}”`, field, PROGRAM, button(page, PROGRAM));
      await walker.press(PROGRAM, button(page, PROGRAM), dialog(page).getByRole('link'));
    },
    async keys(walker) {
      const { page } = walker;
      await walker.command(`software ${PROGRAM}`, /^Which devices have/, button(page, PROGRAM));
      await walker.press(PROGRAM, button(page, PROGRAM), dialog(page).getByRole('link'));
    },
  },
  {
    name: 'The history of its disk',
    picture: 'disk',
    async pointer(walker, { failing }) {
      const { page } = walker;
      await openDevice(walker, failing);
      await walker.press(
        'Metrics',
        page.getByRole('tab', { name: 'Metrics' }),
        page.getByRole('img', { name: /disk/i }),
      );
      await walker.press(
        '30 days',
        page.getByText('30 days', { exact: true }),
        page.getByRole('img', { name: /disk/i }),
      );
    },
    keys: (walker, { failing }) =>
      walker.command(`disk ${failing}`, /over 30 days/, walker.page.getByRole('img', { name: /disk/i })),
  },
  {
    name: 'Restore one file',
    picture: 'restore',
    async pointer(walker, { backedUp }) {
      const { page } = walker;
      await openDevice(walker, backedUp);
      const snapshot = page.getByRole('tabpanel').getByRole('table', { name: 'Snapshots' }).getByRole('link');
      await walker.press('Backup', page.getByRole('tab', { name: 'Backup', exact: true }), snapshot);
      const field = page.getByRole('textbox', { name: 'Search names in this folder and below' });
      await walker.press('The newest snapshot', snapshot, field);
      const found = rows(page)
        .filter({ hasText: FILE })
        .getByRole('button', { name: 'Restore', exact: true });
      await walker.fill(`“${FILE}”`, field, FILE, found);
      await walker.press('Restore', found, dialog(page));
      await walker.press(
        'Restore into a new folder now',
        button(page, 'Restore into a new folder now'),
        dialog(page).getByText('Completed'),
      );
    },
    async keys(walker, { backedUp }) {
      const { page } = walker;
      const field = page.getByRole('textbox', { name: 'Search names in this folder and below' });
      const now = button(page, 'Restore into a new folder now');
      const control = rows(page)
        .filter({ hasText: FILE })
        .getByRole('button', { name: 'Restore', exact: true });
      await walker.command(`restore ${backedUp}`, /^Restore files/, field);
      await walker.find(`/ “${FILE}”, Restore`, { field, text: FILE, control }, now);
      await walker.press('Restore into a new folder now', now, dialog(page).getByText('Completed'));
    },
  },
  {
    name: 'Approve an enrolment',
    picture: 'approve',
    async pointer(walker, { waiting: [name] }) {
      const { page } = walker;
      const waits = page.getByRole('button', { name: /for approval/ });
      await walker.press('Devices', inRail(page, 'Devices'), waits);
      await walker.press('Those that wait for approval', waits, link(page, name));
      await walker.press(name, link(page, name), button(page, 'Approve as its own device'));
      await approve(walker);
    },
    async keys(walker, { waiting: [, name] }) {
      const { page } = walker;
      await walker.command('approve ', new RegExp(name), button(page, 'Approve as its own device'));
      await approve(walker);
    },
  },
  {
    name: 'Who did what',
    picture: 'audit',
    async pointer(walker) {
      const { page } = walker;
      await walker.press('Audit', inRail(page, 'Audit'), rows(page).nth(1));
      const field = page.getByRole('textbox', { name: 'Person' });
      await walker.fill(`“${PERSON}”`, field, PERSON, rows(page).nth(1).filter({ hasText: 'Tess' }));
    },
    keys: (walker) =>
      walker.command(`audit ${PERSON}`, /^What/, rows(walker.page).nth(1).filter({ hasText: 'Tess' })),
  },
];

async function approve(walker: Pointer | KeysOnly): Promise<void> {
  const { page } = walker;
  const confirm = dialog(page).getByRole('button', { name: 'Approve', exact: true });
  await walker.press('Approve as its own device', button(page, 'Approve as its own device'), confirm);
  await walker.press('Approve', confirm, page.getByRole('main').getByText(/^(Offline|Online)/));
}
