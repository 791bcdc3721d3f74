import { expect } from 'chai';
import type { CDPSession, Page } from 'playwright-core';
import { assertAccessible, useDashboard } from '../../support/browser.ts';
import { buildPerson, buildTenant, PASSWORD, type Person } from '../../support/factories.ts';
import { Keyboard } from '../../support/keyboard.ts';
import { lastingPort } from '../../support/lasting-port.ts';
import { query } from '../../support/sso/sso-support.ts';

describe('passkeys in the browser', () => {
  // A passkey belongs to a name, and not to the number of an address.
  const env: Record<string, string> = {};
  before(async () => {
    const port = await lastingPort();
    env['PORT'] = String(port);
    env['PUBLIC_URL'] = `http://localhost:${port}`;
  });
  const dashboard = useDashboard({ env });
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let person: Person;

  before(async () => {
    tenant = await buildTenant(dashboard.app);
  });
  beforeEach(async () => {
    person = await buildPerson(dashboard.app, { scope: 'organization', orgId: tenant.orgId });
  });

  /**
   * A page of a browser that has an authenticator, such as that of a telephone. The authenticator agrees to everything at
   * once, also to what is only offered, so a test says whether the browser offers passkeys by itself.
   */
  async function open(path: string, { offers = false } = {}) {
    const page = await dashboard.newPage();
    if (!offers) {
      await page.addInitScript(
        'if (window.PublicKeyCredential) PublicKeyCredential.isConditionalMediationAvailable = async () => false',
      );
    }
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('WebAuthn.enable');
    const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    });
    await page.goto(`${env['PUBLIC_URL']}${path}`);
    return { page, keys: new Keyboard(page), authenticator: new Authenticator(cdp, authenticatorId) };
  }
  const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name });
  const signInByPassword = async (page: Page, keys: Keyboard) => {
    await keys.fill(page.getByRole('textbox', { name: 'E-mail address' }), person.email);
    await keys.fill(page.getByRole('textbox', { name: 'Password' }), PASSWORD);
    await keys.press('Enter');
  };
  const signOut = async (page: Page, keys: Keyboard) => {
    await keys.use(page.getByRole('button', { name: /^Your account/ }));
    await keys.take('ArrowDown', page.getByRole('menuitem', { name: 'Sign out' }));
    await page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor();
  };
  const add = async (page: Page, keys: Keyboard, { name, password }: { name: string; password?: string }) => {
    await keys.use(page.getByRole('button', { name: 'Add a passkey' }));
    const dialog = page.getByRole('dialog', { name: 'Add a passkey' });
    await keys.hasFocus(dialog.getByRole('textbox', { name: 'Name' }));
    await keys.type(name);
    if (password !== undefined) {
      await keys.fill(dialog.getByRole('textbox', { name: 'Your password' }), password);
    }
    await assertAccessible(page);
    await keys.press('Enter');
    await page.getByRole('row').filter({ hasText: name }).waitFor();
  };

  it('are added, sign in alone and behind a password, confirm an action, and are removed: by keys alone', async () => {
    const { page, keys, authenticator } = await open('/profile');
    await signInByPassword(page, keys);
    await heading(page, 'Your profile').waitFor();
    await add(page, keys, { name: 'Laptop of work', password: PASSWORD });
    const kept = page.getByRole('alert').filter({ hasText: 'Keep these recovery codes' });
    await keys.hasFocus(kept);
    const codes = await kept.getByLabel('Recovery codes', { exact: true }).textContent();
    expect(codes?.split('\n')).to.have.length(10);
    await page.getByText('Besides your password, a passkey is needed.').waitFor();
    expect(await authenticator.count()).to.equal(1);
    await assertAccessible(page);

    await signOut(page, keys);
    await assertAccessible(page);
    await keys.use(page.getByRole('button', { name: 'Sign in with a passkey' }));
    await heading(page, 'Your profile').waitFor();
    await page
      .getByRole('row')
      .filter({ hasText: 'Laptop of work' })
      .getByText(/ago|now/)
      .first()
      .waitFor();

    await signOut(page, keys);
    await signInByPassword(page, keys);
    await heading(page, 'Two-factor authentication').waitFor();
    await keys.hasFocus(page.getByRole('textbox', { name: 'Code' }));
    await assertAccessible(page);
    await keys.use(page.getByRole('button', { name: 'Use a passkey' }));
    await heading(page, 'Your profile').waitFor();

    // The factor of this session has become old, so that a change of passkeys asks for it once more.
    dashboard.allow(/status of 403/);
    await query(
      dashboard.app,
      `update sessions set mfa_at = now() - interval '1 hour' where user_id = ? and revoked_at is null`,
      [person.id],
    );
    const row = page.getByRole('row').filter({ hasText: 'Laptop of work' });
    await keys.use(row.getByRole('button', { name: 'Rename' }));
    const rename = page.getByRole('dialog', { name: 'Rename the passkey' });
    await keys.fill(rename.getByRole('textbox', { name: 'Name' }), 'Old laptop');
    await keys.press('Enter');
    const renamed = page.getByRole('row').filter({ hasText: 'Old laptop' });
    await renamed.waitFor();
    await keys.use(renamed.getByRole('button', { name: 'Remove' }));
    const remove = page.getByRole('dialog', { name: 'Remove “Old laptop”' });
    await keys.use(remove.getByRole('button', { name: 'Remove' }));
    const proof = page.getByRole('dialog', { name: 'Confirm that it is you' });
    await keys.hasFocus(proof.getByRole('textbox', { name: 'Code' }));
    await assertAccessible(page);
    await keys.use(proof.getByRole('button', { name: 'Use a passkey' }));
    await renamed.waitFor({ state: 'detached' });
    await page.getByText('With two-factor authentication, a stolen password is not enough.').waitFor();

    // The part of the page has the focus in place of the button that was in it.
    await keys.press('Tab');

    // What the server has forgotten is refused in words.
    await signOut(page, keys);
    dashboard.allow(/status of 401/);
    await keys.use(page.getByRole('button', { name: 'Sign in with a passkey' }));
    await page.getByRole('alert').getByText('The passkey was not accepted.').waitFor();
    await assertAccessible(page);
  });

  it('are offered by the browser at the field for the address', async () => {
    const { page, keys } = await open('/profile', { offers: true });
    await signInByPassword(page, keys);
    await heading(page, 'Your profile').waitFor();
    await add(page, keys, { name: 'Laptop', password: PASSWORD });
    await page.context().clearCookies();
    dashboard.allow(/status of 401/);
    await page.goto(`${env['PUBLIC_URL']}/login`);
    await heading(page, 'Overview').waitFor();
    const sessions = await query<{ mfa: boolean }>(
      dashboard.app,
      'select mfa from sessions where user_id = ? order by created_at desc limit 1',
      [person.id],
    );
    expect(sessions).to.deep.equal([{ mfa: true }]);
  });

  it('say in words why one was not used, and leave the other ways open', async () => {
    const { page, keys, authenticator } = await open('/profile');
    await signInByPassword(page, keys);
    await heading(page, 'Your profile').waitFor();
    await add(page, keys, { name: 'Laptop', password: PASSWORD });
    await keys.use(page.getByRole('button', { name: 'Add a passkey' }));
    const dialog = page.getByRole('dialog', { name: 'Add a passkey' });
    await keys.hasFocus(dialog.getByRole('textbox', { name: 'Name' }));
    await keys.type('The same once more');
    await keys.press('Enter');
    await dialog.getByText('This device has a passkey for your account already.').waitFor();
    await assertAccessible(page);
    await keys.press('Escape');

    await signOut(page, keys);
    await authenticator.refuse();
    await keys.use(page.getByRole('button', { name: 'Sign in with a passkey' }));
    await page.getByRole('alert').getByText('No passkey was used.').waitFor();
    await signInByPassword(page, keys);
    await heading(page, 'Two-factor authentication').waitFor();
  });
});

/** The virtual authenticator of a browser. */
class Authenticator {
  readonly #cdp: CDPSession;
  readonly #authenticatorId: string;

  constructor(cdp: CDPSession, authenticatorId: string) {
    this.#cdp = cdp;
    this.#authenticatorId = authenticatorId;
  }

  async count(): Promise<number> {
    const { credentials } = await this.#cdp.send('WebAuthn.getCredentials', {
      authenticatorId: this.#authenticatorId,
    });
    return credentials.length;
  }

  /** Its user is another one from now on. */
  async refuse(): Promise<void> {
    await this.#cdp.send('WebAuthn.setUserVerified', {
      authenticatorId: this.#authenticatorId,
      isUserVerified: false,
    });
  }
}
