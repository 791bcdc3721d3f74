import type { Locator, Page } from 'playwright-core';
import { eventually } from './eventually.ts';

/** More controls than any page has. */
const PRESSES_MAX = 250;

/**
 * Somebody who has no pointer, at a page that has been opened. Each step fails where the focus is lost, cannot be seen, or
 * is behind something else.
 */
export class Keyboard {
  readonly #page: Page;
  #isBegin = true;

  constructor(page: Page) {
    this.#page = page;
  }

  async press(...keys: string[]): Promise<void> {
    for (const key of keys) await this.#page.keyboard.press(key);
  }

  async type(text: string): Promise<void> {
    await this.#page.keyboard.type(text);
  }

  /** Goes to a control, from wherever the focus is. */
  async to(control: Locator): Promise<void> {
    await control.waitFor({ state: 'attached' });
    // A dialog that has just opened or closed moves the focus a moment later.
    if (!this.#isBegin) await this.hasFocus();
    this.#isBegin = false;
    for (let presses = 0; presses < PRESSES_MAX; presses++) {
      const { place, fault } = await standingOf(control);
      if (fault !== undefined) throw new Error(`${fault} on the way to ${String(control)}.`);
      if (place === 'here') return;
      await this.press(place === 'before' ? 'Shift+Tab' : 'Tab');
    }
    throw new Error(`The key Tab does not lead to ${String(control)}.`);
  }

  /** Goes to a button or a link, and presses it. */
  async use(control: Locator): Promise<void> {
    await this.to(control);
    await this.press('Enter');
  }

  /** Goes to a checkbox, and changes it. */
  async toggle(control: Locator): Promise<void> {
    await this.to(control);
    await this.press('Space');
  }

  /** Goes to a field, and replaces its text. */
  async fill(field: Locator, text: string): Promise<void> {
    await this.to(field);
    await this.press('Control+a');
    await this.type(text);
  }

  /** Goes to a field with a list, opens the list, and takes an option. */
  async choose(field: Locator, option: string): Promise<void> {
    await this.to(field);
    await this.press('ArrowDown');
    await this.take('ArrowDown', this.#page.getByRole('option', { name: option, exact: true }));
  }

  /** Goes on in a list or a menu until the entry is marked, and takes it. */
  async take(key: string, entry: Locator): Promise<void> {
    await entry.waitFor();
    for (let presses = 0; presses < PRESSES_MAX; presses++) {
      if (await entry.evaluate(isMarked)) return this.press('Enter');
      await this.press(key);
    }
    throw new Error(`The key ${key} does not lead to ${String(entry)}.`);
  }

  /** Something has the focus; with a control, that one, as where a dialog gives the focus back. */
  async hasFocus(control?: Locator): Promise<void> {
    const focused = this.#page.locator(':focus');
    const wanted = control?.and(focused) ?? focused;
    try {
      await eventually(
        () => wanted.count(),
        (count) => count > 0,
      );
    } catch {
      const actual = await this.#page.evaluate<string>('document.activeElement?.outerHTML.slice(0, 200)');
      throw new Error(`The focus is not at ${String(control ?? 'anything')}, but at ${actual}`);
    }
  }
}

/** Where a control is from the focus. An editor shows a moment later that it has the focus, so a fault is looked at again. */
async function standingOf(control: Locator) {
  const look = () => control.evaluate(standing);
  const first = await look();
  if (first.fault === undefined) return first;
  return eventually(look, ({ fault }) => fault === undefined).catch(() => first);
}

/** The little of the document that the functions below need. They run in the page, so they are whole by themselves. */
interface PageElement {
  readonly ownerDocument: {
    readonly activeElement: PageElement | null;
    readonly body: PageElement;
    readonly defaultView: {
      readonly innerWidth: number;
      readonly innerHeight: number;
      getComputedStyle(element: PageElement): {
        outlineStyle: string;
        outlineWidth: string;
        opacity: string;
        getPropertyValue(name: string): string;
      };
    };
    elementFromPoint(x: number, y: number): PageElement | null;
  };
  readonly outerHTML: string;
  readonly parentElement: PageElement | null;
  readonly nextElementSibling: PageElement | null;
  matches(selector: string): boolean;
  closest(selector: string): PageElement | null;
  contains(other: PageElement | null): boolean;
  compareDocumentPosition(other: PageElement): number;
  getAttribute(name: string): string | null;
  getBoundingClientRect(): { left: number; top: number; width: number; height: number };
}

interface Standing {
  /** Where the control is, as seen from the focus. */
  place: 'here' | 'before' | 'after';
  fault?: string;
}

/** Where the focus is, and whether a person sees it there. */
function standing(control: PageElement): Standing {
  const { ownerDocument: page } = control;
  const { defaultView: view, activeElement: active } = page;
  // At the beginning, and between the last control and the first.
  if (active === null || active === page.body) return { place: 'after' };
  const name = active.outerHTML.slice(0, 200);
  const style = view.getComputedStyle(active);
  const isText =
    active.matches('input:not([type]), input, textarea') &&
    !active.matches('[readonly], [type=checkbox], [type=radio], [type=file]');
  let isSeen = isText;
  // Checkboxes and the like are drawn by what stands beside them.
  for (const shown of [active, active.parentElement, active.nextElementSibling, active.closest('label')]) {
    if (shown === null) continue;
    const { outlineStyle, outlineWidth } = view.getComputedStyle(shown);
    isSeen ||= outlineStyle !== 'none' && parseFloat(outlineWidth) > 0;
  }
  // The field of a list shows no cursor, but another border.
  const border = style.getPropertyValue('--input-bd');
  isSeen ||= border !== '' && border === style.getPropertyValue('--input-bd-focus');
  if (!isSeen) return { place: 'after', fault: `The focus is not to be seen at ${name}` };

  const { left, top, width, height } = active.getBoundingClientRect();
  const [x, y] = [left + width / 2, top + height / 2];
  const isDrawn = width > 2 && height > 2 && style.opacity !== '0';
  if (isDrawn && height < view.innerHeight) {
    const hit = page.elementFromPoint(x, y);
    const isHit = hit !== null && (active.contains(hit) || hit.contains(active));
    if (!isHit) {
      return { place: 'after', fault: `The focus is hidden at ${name} by ${hit?.outerHTML.slice(0, 200)}` };
    }
  }
  if (active === control) return { place: 'here' };
  return { place: (active.compareDocumentPosition(control) & 2) === 0 ? 'after' : 'before' };
}

/** Whether the entry of a list or a menu is the one that Enter takes. */
function isMarked(entry: PageElement): boolean {
  return (
    entry.ownerDocument.activeElement === entry ||
    entry.getAttribute('data-combobox-selected') === 'true' ||
    entry.getAttribute('data-selected') === 'true'
  );
}
