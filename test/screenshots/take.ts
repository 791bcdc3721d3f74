import { readFile, writeFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';

/** Pictures and tables that a walk through the demo puts into the documentation. */

export const VIEW = { width: 1280, height: 800 };
const SETTLED_MS = 1000;
/** Dense text needs a smaller picture rather than a coarse one. */
const TRIES = [
  { quality: 70, scale: 1 },
  { quality: 45, scale: 1 },
  { quality: 60, scale: 0.75 },
  { quality: 40, scale: 0.75 },
  { quality: 30, scale: 0.6 },
];
const BYTES_MAX = 60_000;

/** Takes the best picture that is small enough. @param file  ends with .webp */
export async function takePicture(page: Page, file: string): Promise<void> {
  await page.mouse.move(VIEW.width - 1, VIEW.height - 1);
  await page.waitForTimeout(SETTLED_MS);
  const devtools = await page.context().newCDPSession(page);
  const clip = { x: 0, y: 0, ...VIEW };
  for (const { quality, scale } of TRIES) {
    const { data } = await devtools.send('Page.captureScreenshot', {
      format: 'webp',
      quality,
      clip: { ...clip, scale },
    });
    const bytes = Buffer.from(data, 'base64');
    if (bytes.length > BYTES_MAX) continue;
    await writeFile(file, bytes);
    await devtools.detach();
    return;
  }
  throw new Error(`No picture of the page is small enough for ${file}.`);
}

const END = '<!-- end of the table -->';

/** Replaces the table of a page of the documentation. @param by  the command that writes it, which the page names */
export async function writeBetweenMarks(file: string, by: string, table: string): Promise<void> {
  const begin = `<!-- table: ${by} -->`;
  const text = await readFile(file, 'utf8');
  const [before, after] = [text.indexOf(begin), text.indexOf(END)];
  if (before < 0 || after < before) throw new Error(`${file} does not have the two marks of its table.`);
  await writeFile(file, `${text.slice(0, before)}${begin}\n\n${table}\n\n${text.slice(after)}`);
}
