import type { Locator, Page } from 'playwright-core';
import { Keyboard } from '../../support/keyboard.ts';

export interface Step {
  /** What the technician decides, in words. */
  says: string;
  /** From the last key or click to the visible result. */
  ms: number;
}

/**
 * A technician at a page, with a pointer or by keys alone. Each method is one step: one decision, with what was typed for
 * it. Moving the focus is no step, and its keys are counted by the page.
 */
export abstract class Walker {
  readonly steps: Step[] = [];
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  /** Opens a link, presses a button, or chooses a checkbox. */
  abstract press(says: string, control: Locator, shown: Locator): Promise<void>;

  protected async timed(says: string, act: () => Promise<unknown>, shown: Locator): Promise<void> {
    const begin = performance.now();
    await act();
    await shown.first().waitFor();
    this.steps.push({ says, ms: performance.now() - begin });
  }

  protected get searchField(): Locator {
    return this.page.getByRole('textbox', { name: 'Search', exact: true });
  }

  protected entry(name: string | RegExp): Locator {
    return this.page.getByRole('dialog').getByRole('button', { name }).first();
  }
}

export class Pointer extends Walker {
  async press(says: string, control: Locator, shown: Locator): Promise<void> {
    await control.first().waitFor();
    await this.timed(says, () => control.first().click(), shown);
  }

  /** A field is clicked and typed into, as one step. */
  async fill(says: string, field: Locator, text: string, shown: Locator): Promise<void> {
    await field.click();
    await this.timed(says, () => field.fill(text), shown);
  }
}

export class KeysOnly extends Walker {
  readonly keys: Keyboard;

  constructor(page: Page) {
    super(page);
    this.keys = new Keyboard(page);
  }

  async press(says: string, control: Locator, shown: Locator): Promise<void> {
    await control.first().waitFor();
    await this.keys.to(control.first());
    await this.timed(says, () => this.keys.press('Enter'), shown);
  }

  /** Ctrl+K, a text, and the entry that it is typed for. */
  async command(text: string, entry: string | RegExp, shown: Locator): Promise<void> {
    await this.page.getByRole('heading', { level: 1 }).first().waitFor();
    await this.keys.press('Control+k');
    await this.keys.hasFocus(this.searchField);
    await this.keys.type(text);
    await this.timed(
      `Ctrl+K “${text}”`,
      async () => {
        await this.entry(entry).waitFor();
        await this.keys.take('ArrowDown', this.entry(entry));
      },
      shown,
    );
  }

  /** The key / leads to the field of the page, and Tab from what was typed there to what was found. */
  async find(
    says: string,
    { field, text, control }: { field: Locator; text: string; control: Locator },
    shown: Locator,
  ): Promise<void> {
    await this.keys.press('/');
    await this.keys.hasFocus(field);
    await this.keys.type(text);
    await this.timed(
      says,
      async () => {
        await control.first().waitFor();
        await this.keys.to(control.first());
        await this.keys.press('Enter');
      },
      shown,
    );
  }
}
