import { Secret, TOTP } from 'otpauth';
import type { Browser, Page } from 'playwright-core';
import { z } from 'zod';
import type { DemoProcess } from '../support/demo-process.ts';

/** Rollouts are shown to system administrators with a second factor, so this one sets one up, as anybody would. */

const EMAIL = 'system@demo.example';
const PATIENCE_MS = 120_000;

const Login = z.object({ tokens: z.object({ accessToken: z.string() }) });
const Setup = z.object({ secret: z.string(), recoveryCodes: z.array(z.string()).min(1) });

export async function openAsSystemAdministrator(
  browser: Browser,
  demo: DemoProcess,
  viewport: { width: number; height: number },
): Promise<Page> {
  const password = demo.passwordOf(EMAIL);
  const recoveryCode = await setUpSecondFactor(demo.url, password);
  const context = await browser.newContext({ viewport, reducedMotion: 'reduce', baseURL: demo.url });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await page.goto('/login');
  await page.getByLabel('E-mail address').fill(EMAIL);
  await page.getByLabel('Password', { exact: false }).first().fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByLabel('Code').fill(recoveryCode);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return page;
}

async function setUpSecondFactor(url: string, currentPassword: string): Promise<string> {
  const post = async (path: string, body: object, token?: string): Promise<unknown> => {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`POST ${path} was answered with ${answer.status}.`);
    return answer.json();
  };
  const { accessToken } = Login.parse(
    await post('/auth/login', { email: EMAIL, password: currentPassword }),
  ).tokens;
  const { secret, recoveryCodes } = Setup.parse(
    await post('/auth/mfa/setup', { currentPassword }, accessToken),
  );
  const code = new TOTP({ secret: Secret.fromBase32(secret) }).generate();
  await post('/auth/mfa/enable', { code }, accessToken);
  return recoveryCodes[0] ?? '';
}
