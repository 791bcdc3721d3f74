import { existsSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type axe from 'axe-core';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import { openDashboard } from '../../src/server/dashboard.ts';
import type { PageFiles, SinglePage } from '../../src/platform/http/single-page.ts';
import { giveSecondFactor, type Person } from './factories.ts';
import { nextBuild } from './next-build.ts';
import { quietLog } from './quiet-log.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { createTestApp, type TestApp, type TestAppOptions } from './test-app.ts';
import { createTestDatabase, type TestDatabase } from './test-postgres.ts';

/** The dashboard in Debian's Chromium, served by a real server with a database of its own. */
export interface DashboardGround {
  readonly app: TestApp;
  readonly browser: Browser;
  /** Where browsers find the server. */
  readonly url: string;
  /** Ends the server. Its address stays, and answers nobody. Only where the tests have asked for it by `restarts`. */
  stopServer(): Promise<void>;
  /** Starts the server again, on the same database, with the next build of the dashboard where that is asked for. */
  startServer(options?: { isUpdated?: boolean }): Promise<void>;
  /** A page of a browser that was never here: it shares nothing with the pages of other tests. */
  newPage(options?: BrowserContextOptions): Promise<Page>;
  /** Opens a path of the dashboard; with a person, signed in as that one. */
  open(asked: string, options?: OpenOptions): Promise<Page>;
  /** The test that runs may see such faults: messages of the console, or requests. */
  allow(fault: RegExp): void;
}

export type OpenOptions = BrowserContextOptions & {
  person?: Pick<Person, 'id'>;
  /** The person has proven the second factor. */
  isProven?: boolean;
  /** The page stays until the end of the file, not of the test. */
  isKept?: boolean;
};

/** Places of Chromium, the first that exists is used. The one without windows takes a third less processor time. */
const PROGRAMS = [
  '/usr/bin/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];
const ROOT = path.join(import.meta.dirname, '../..');
/** Where a test that fails leaves a picture of its page. */
const PICTURES = path.join(ROOT, 'dist/failed-tests');
/** Other work may keep both cores busy. */
const PATIENCE_MS = 30_000;
const START_MS = 120_000;
/** A port of this machine at which nobody listens, for a server that is away. */
const NOBODY = 9;

/**
 * Declares the hooks of a test file: one server and one browser for all of its tests. Each test fails that leaves an error
 * in the console, an exception that nobody caught, a breach of the content security policy, or a request to anything but
 * the server. Without Chromium the tests are skipped; in the gate (`CI=true`) they fail.
 */
export function useDashboard({
  restarts = false,
  ...options
}: TestAppOptions & { restarts?: boolean } = {}): DashboardGround {
  let app: TestApp | undefined;
  let browser: Browser | undefined;
  let database: TestDatabase | undefined;
  let proxy: TcpProxy | undefined;
  const target = { host: '127.0.0.1', port: NOBODY };
  let shown: PageFiles | undefined;
  let contexts: BrowserContext[] = [];
  const kept: BrowserContext[] = [];
  let faults: string[] = [];
  let allowed: RegExp[] = [];
  const there = <T>(part: T | undefined): T => {
    if (part === undefined) throw new Error('The server and the browser are there within tests only.');
    return part;
  };

  before(async function () {
    this.timeout(START_MS);
    if (chromiumProgram() === undefined && process.env['CI'] !== 'true') this.skip();
    const dashboard = openDashboard({ log: quietLog });
    [browser] = await Promise.all([launchChromium(), start(), dashboard.settled]);
    const state = await dashboard.current();
    if (!('files' in state)) throw new Error(`${state.notice.title}: npm run build:dashboard`);
    shown = state.files;
  });

  async function start(): Promise<void> {
    database ??= await createTestDatabase();
    const dashboard: SinglePage = { current: () => ({ files: there(shown) }) };
    app = await createTestApp({ ...options, database, dashboard });
    if (!restarts) return;
    target.port = Number(new URL(app.url).port);
    proxy ??= await startTcpProxy(target);
  }
  const urlOf = () => (proxy === undefined ? there(app).url : `http://127.0.0.1:${proxy.port}`);

  afterEach(async function () {
    const [ended, seen] = [contexts, faults.filter((fault) => !allowed.some((each) => each.test(fault)))];
    const { currentTest } = this;
    if (currentTest?.state === 'failed') await takePictures([...kept, ...ended], currentTest.fullTitle());
    await Promise.all(ended.map((context) => context.close()));
    if (target.port === NOBODY && restarts) await start();
    [contexts, faults, allowed] = [[], [], []];
    if (seen.length === 0) return;
    // Lines with less before them end the list of failures at the end of the gate.
    throw new Error(`The page was not quiet:\n${seen.map((fault) => `        ${fault}`).join('\n')}`);
  });

  after(async () => {
    await browser?.close();
    await proxy?.cut();
    await app?.close();
    await database?.drop();
  });

  async function newPage({
    isKept = false,
    ...settings
  }: Omit<OpenOptions, 'person' | 'isProven'> = {}): Promise<Page> {
    const url = urlOf();
    const context = await there(browser).newContext({
      baseURL: url,
      viewport: { width: 1280, height: 720 },
      reducedMotion: 'reduce',
      ...settings,
    });
    (isKept ? kept : contexts).push(context);
    context.setDefaultTimeout(PATIENCE_MS);
    watch(context, url, (fault) => faults.push(fault));
    return context.newPage();
  }

  return {
    get app() {
      return there(app);
    },
    get browser() {
      return there(browser);
    },
    get url() {
      return urlOf();
    },
    async stopServer() {
      target.port = NOBODY;
      await there(app).close();
    },
    async startServer({ isUpdated = false } = {}) {
      if (isUpdated) shown = nextBuild(there(shown));
      await start();
    },
    newPage,
    async open(asked, { person, isProven = false, ...settings } = {}) {
      const page = await newPage(settings);
      const code = person === undefined ? '' : await there(app).server.signInFragment(person.id);
      if (person === undefined || !isProven) {
        await page.goto(asked + code);
        return page;
      }
      await page.goto(`/${code}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await giveSecondFactor(there(app), person);
      // With the next page comes the next access token, which says so.
      await page.goto(asked);
      return page;
    },
    allow: (fault) => void allowed.push(fault),
  };
}

const chromiumProgram = () => PROGRAMS.find((program) => existsSync(program));

export async function launchChromium(): Promise<Browser> {
  const executablePath = chromiumProgram();
  if (executablePath === undefined) throw new Error(`No Chromium is installed: ${PROGRAMS.join(', ')}`);
  return chromium.launch({
    executablePath,
    // As root, Chromium refuses to start with it.
    chromiumSandbox: process.getuid?.() !== 0,
    args: [
      '--disable-gpu',
      '--disable-quic',
      '--disable-sync',
      // Neither the page nor the browser itself gets further than this machine.
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost',
    ],
  });
}

/** Everything that a quiet page does not do. */
function watch(context: BrowserContext, url: string, report: (fault: string) => void): void {
  // The server's own links name the host that people use.
  const own = [url, url.replace('127.0.0.1', 'localhost')].map((each) => new URL(each).host);
  const isOwn = (asked: string) => /^(data|blob|about):/.test(asked) || own.includes(new URL(asked).host);
  context.on('request', (request) => {
    if (!isOwn(request.url())) report(`a request to ${request.url()}`);
  });
  context.on('weberror', (thrown) => report(`an exception: ${String(thrown.error().stack)}`));
  context.on('console', (message) => {
    // Chromium reports breaches of the content security policy here too.
    if (message.type() === 'error') report(`console: ${message.text()} (${message.location().url})`);
  });
  context.on('page', (page) => {
    page.on('websocket', (socket) => {
      if (!isOwn(socket.url())) report(`a socket to ${socket.url()}`);
    });
    page.on('crash', () => report('the page crashed'));
  });
}

async function takePictures(contexts: BrowserContext[], title: string): Promise<void> {
  await mkdir(PICTURES, { recursive: true });
  const name = title.replaceAll(/[^\w]+/g, '-').slice(0, 120);
  for (const [at, page] of contexts.flatMap((context) => context.pages()).entries()) {
    const file = path.join(PICTURES, `${name}-${at}.png`);
    await page.screenshot({ path: file, timeout: 5000 }).catch(() => undefined);
    process.stdout.write(`      the page as it was: ${path.relative(ROOT, file)}\n`);
  }
}

const GRAVE: readonly unknown[] = ['serious', 'critical'];

/** The rules about colours, without one for a higher level: the rest of a page is the same in light and in dark. */
const ABOUT_COLOURS = {
  runOnly: { type: 'tag', values: ['cat.color'] },
  rules: { 'color-contrast-enhanced': { enabled: false } },
};

const axeProgram = () => readFileSync(path.join(ROOT, 'node_modules/axe-core/axe.min.js'), 'utf8');

/** axe finds no serious and no critical fault in the page as it stands, in light and in dark colours. */
export async function assertAccessible(
  page: Page,
  { except = [] }: { except?: string[] } = {},
): Promise<void> {
  const found: string[] = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    // The page follows a moment later, and not all of it at once.
    await page.evaluate(`(async () => {
      const { dataset } = document.documentElement;
      const frame = () => new Promise((shown) => requestAnimationFrame(shown));
      while (![undefined, '${colorScheme}'].includes(dataset.mantineColorScheme)) await frame();
      await frame();
      await frame();
    })()`);
    if ((await page.evaluate<string>('typeof axe')) === 'undefined') await page.evaluate(axeProgram());
    const place = JSON.stringify({ exclude: except.map((selector) => [selector]) });
    const settings = JSON.stringify({
      resultTypes: ['violations'],
      ...(colorScheme === 'light' ? {} : ABOUT_COLOURS),
    });
    const { violations } = await page.evaluate<axe.AxeResults>(`axe.run(${place}, ${settings})`);
    for (const { id, impact, help, nodes } of violations.filter((each) => GRAVE.includes(each.impact))) {
      const places = nodes
        .slice(0, 5)
        .map(({ target, failureSummary }) => `${target.join(' ')}: ${failureSummary}`);
      found.push([`${colorScheme}: ${id} (${impact}): ${help}`, ...places].join('\n    '));
    }
  }
  await page.emulateMedia({ colorScheme: null });
  if (found.length > 0) throw new Error(`Faults of accessibility in ${page.url()}:\n  ${found.join('\n  ')}`);
}
