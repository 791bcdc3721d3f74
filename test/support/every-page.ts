import { expect } from 'chai';
import { brotliCompressSync } from 'node:zlib';
import type { Page, Request } from 'playwright-core';
import { assertAccessible, useDashboard } from './browser.ts';
import { declaredPages } from './declared-pages.ts';
import { eventually } from './eventually.ts';
import { buildDevice, buildTenant } from './factories.ts';

/**
 * KiB of JavaScript, compressed as browsers get it, before the first page is drawn. The overview and the connection to the
 * hub add 16, and the first page may need 220.
 */
const INITIAL_KIB = 204;

const pages = declaredPages();

/** Returns a function that waits until the page has drawn twice and none of its requests is still open. */
function trackRequests(page: Page): () => Promise<void> {
  const open = new Set<Request>();
  page.on('request', (request) => open.add(request));
  page.on('requestfinished', (request) => open.delete(request));
  page.on('requestfailed', (request) => open.delete(request));
  return async () => {
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
    await eventually(
      () => [...open].map((request) => request.url()),
      (urls) => urls.length === 0,
    );
  };
}

/**
 * Declares tests that open each page of the dashboard.
 * @param isThorough  also looks at each page with axe in both themes, and at 200 % on a small screen
 */
export function describeEveryPage({ isThorough }: { isThorough: boolean }): void {
  describe('every page of the dashboard', () => {
    const dashboard = useDashboard();
    let person: { id: string };
    let parameters: Record<string, string>;
    /** One browser that is signed in for all pages, and another that is not: what it has loaded once it keeps. */
    let member: Page;
    let stranger: Page;
    /** A late answer of one page would be counted as a fault of the next. */
    let requestsEnded: () => Promise<void>;

    before(async () => {
      const tenant = await buildTenant(dashboard.app);
      const { deviceId } = await buildDevice(dashboard.app, tenant.orgId, { hostname: 'FRONT-DESK' });
      person = tenant.admin;
      parameters = { deviceId, organizationId: tenant.orgId };
      member = await dashboard.open('/profile', { person, isKept: true });
      requestsEnded = trackRequests(member);
      await member.getByRole('heading', { level: 1 }).waitFor();
      stranger = await dashboard.open('/login', { isKept: true });
    });

    /** As a link does, without loading the program again; by way of a page that has nothing of the one before. */
    async function follow(page: Page, address: string): Promise<void> {
      await page.setViewportSize({ width: 1280, height: 720 });
      const noSuchPage = page.getByText('There is no such page');
      await page.evaluate(`history.pushState({}, '', '/no-such-page')`);
      await noSuchPage.waitFor();
      await page.evaluate(`history.pushState({}, '', ${JSON.stringify(address)})`);
      await noSuchPage.waitFor({ state: 'detached' });
    }

    /** At 200 % on a small screen, nothing is beyond its edge. */
    async function assertFits(page: Page): Promise<void> {
      await page.setViewportSize({ width: 640, height: 360 });
      const beyond = await page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth');
      expect(beyond, `pixels of ${page.url()} beyond the edge at 200 %`).to.be.at.most(0);
    }

    const title = isThorough ? 'opens, is accessible and fits' : 'opens';
    async function look(page: Page): Promise<void> {
      if (!isThorough) return;
      await assertAccessible(page);
      await assertFits(page);
    }

    /** A page of a thing that the test has not made is opened with an id of nothing, and says so. */
    const filledIn = (address: string): string =>
      address.replaceAll(
        /\$(\w+)/g,
        (_, name: string) => parameters[name] ?? '00000000-0000-4000-8000-000000000000',
      );

    it('is found by this test', () => {
      expect(pages.signedIn).to.include.members(['/', '/devices', '/alerts']);
      expect(pages.public).to.include.members(['/login', '/accept-invite']);
    });

    for (const address of pages.signedIn) {
      it(`${title}: ${address}`, async () => {
        if (filledIn(address).includes('00000000-')) dashboard.allow(/status of 404/);
        await follow(member, filledIn(address));
        await member.locator('main h1, main [role=alert]').first().waitFor();
        await requestsEnded();
        await look(member);
      });
    }

    for (const address of pages.public) {
      it(`${title}: ${address}`, async () => {
        await stranger.setViewportSize({ width: 1280, height: 720 });
        await stranger.goto(address);
        await stranger.getByRole('heading', { level: 1 }).waitFor();
        await look(stranger);
      });
    }

    it(`needs at most ${INITIAL_KIB} KiB of JavaScript to begin`, async () => {
      const html = await (await fetch(`${dashboard.app.url}/`, { headers: { accept: 'text/html' } })).text();
      const files = [...html.matchAll(/(?:src|href)="([^"]+\.js)"/g)].map(([, file]) => file ?? '');
      expect(files).to.not.be.empty;
      const sizes = await Promise.all(
        files.map(async (file) => {
          const answer = await fetch(new URL(file, dashboard.app.url));
          return brotliCompressSync(Buffer.from(await answer.arrayBuffer())).length;
        }),
      );
      const kib = sizes.reduce((sum, size) => sum + size, 0) / 1024;
      expect(kib).to.be.within(50, INITIAL_KIB);
    });
  });
}
