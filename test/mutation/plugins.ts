import {
  INSTRUMENTER_CONSTANTS,
  type InstrumenterContext,
  type StrykerOptions,
} from '@stryker-mutator/api/core';
import {
  commonTokens,
  declareClassPlugin,
  declareValuePlugin,
  PluginKind,
  tokens,
} from '@stryker-mutator/api/plugin';
import {
  determineHitLimitReached,
  type DryRunOptions,
  type DryRunResult,
  DryRunStatus,
  type MutantRunOptions,
  type MutantRunResult,
  type TestResult,
  type TestRunner,
  TestStatus,
  toMutantRunResult,
} from '@stryker-mutator/api/test-runner';
import Mocha from 'mocha';
import { mochaHooks } from '../support/hooks.ts';

/**
 * Runs the tests in Stryker's process, by Mocha's public interface. Stryker's own runner for Mocha reads files inside of
 * Mocha that Mocha 12 has moved.
 */
class MochaRunner implements TestRunner {
  static inject = tokens(commonTokens.options);
  readonly #mocha: Mocha;
  readonly #context: InstrumenterContext;
  #isLoaded = false;

  constructor(options: StrykerOptions) {
    const globals: Record<string, InstrumenterContext | undefined> = globalThis as never;
    this.#context = globals[INSTRUMENTER_CONSTANTS.NAMESPACE] ??= {};
    this.#mocha = new Mocha({ reporter: NoOutput, timeout: 0, rootHooks: mochaHooks, bail: true });
    this.#mocha.cleanReferencesAfterRun(false);
    for (const file of options['testFilesOfMachine'] as string[]) this.#mocha.addFile(file);
  }

  capabilities() {
    // Modules that were imported once cannot be loaded again.
    return { reloadEnvironment: false };
  }

  async dryRun({ coverageAnalysis }: DryRunOptions): Promise<DryRunResult> {
    const result = await this.#run(coverageAnalysis === 'perTest');
    if (result.status !== DryRunStatus.Complete) return result;
    return {
      ...result,
      ...(this.#context.mutantCoverage && { mutantCoverage: this.#context.mutantCoverage }),
    };
  }

  async mutantRun(options: MutantRunOptions): Promise<MutantRunResult> {
    const { activeMutant, hitLimit, mutantActivation, testFilter } = options;
    // Left out where there is no limit.
    Object.assign(this.#context, { hitLimit, hitCount: hitLimit === undefined ? undefined : 0 });
    // Before the files are loaded, a change in a constant has to be there.
    if (mutantActivation === 'static') this.#context.activeMutant = activeMutant.id;
    await this.#load();
    this.#context.activeMutant = activeMutant.id;
    this.#mocha.grep(
      testFilter === undefined ? /^/ : new RegExp(testFilter.map((id) => `^${escaped(id)}$`).join('|')),
    );
    return toMutantRunResult(await this.#run(false));
  }

  async #load(): Promise<void> {
    if (this.#isLoaded) return;
    this.#isLoaded = true;
    await this.#mocha.loadFilesAsync();
  }

  async #run(countsCoverage: boolean): Promise<DryRunResult> {
    await this.#load();
    const tests: TestResult[] = [];
    await new Promise<void>((resolve) => {
      const runner = this.#mocha.run(() => resolve());
      runner.on('test', (test) => {
        if (countsCoverage) this.#context.currentTestId = test.fullTitle();
      });
      runner.on('pass', (test) => tests.push({ ...named(test), status: TestStatus.Success }));
      runner.on('fail', (test, error: Error) =>
        tests.push({
          ...named(test),
          status: TestStatus.Failed,
          failureMessage: error.stack ?? error.message,
        }),
      );
    });
    Object.assign(this.#context, { currentTestId: undefined });
    const endless = determineHitLimitReached(this.#context.hitCount, this.#context.hitLimit);
    return endless ?? { status: DryRunStatus.Complete, tests };
  }
}

/** A hook that fails counts as a test. */
const named = (test: Mocha.Runnable) => ({
  id: test.fullTitle(),
  name: test.fullTitle(),
  timeSpentMs: test.duration ?? 0,
});

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);

/** Results are taken from the events of the run. */
class NoOutput extends Mocha.reporters.Base {
  override epilogue(): void {}
}

const LOG_METHODS = new Set(['trace', 'debug', 'info', 'warn', 'error', 'fatal']);

/** What is read of a node of the syntax tree. Stryker's types leave it open. */
interface SyntaxNode {
  type: string;
  name?: string;
  value?: unknown;
  id?: SyntaxNode;
  callee?: SyntaxNode;
  object?: SyntaxNode;
  property?: SyntaxNode;
  quasis?: { value: { raw: string } }[];
}

/** Such as `log.warn(...)` and `this.#log.warn(...)`. */
function isLogCall({ type, callee }: SyntaxNode): boolean {
  if (type !== 'CallExpression' || !LOG_METHODS.has(callee?.property?.name ?? '')) return false;
  const log = callee?.object?.property ?? callee?.object;
  return (log?.name ?? log?.id?.name) === 'log';
}

/** A sentence is for people: the message of an error. Codes, events and states are single words. */
function isSentence({ type, value, quasis }: SyntaxNode): boolean {
  if (type === 'StringLiteral') return /^[A-Z].* .*[.!]$/.test(String(value));
  if (type !== 'TemplateLiteral' || quasis === undefined) return false;
  return /^[A-Z].* /.test(quasis[0]?.value.raw ?? '') && /[.!]$/.test(quasis.at(-1)?.value.raw ?? '');
}

export const strykerPlugins = [
  declareClassPlugin(PluginKind.TestRunner, 'mocha-12', MochaRunner),
  /**
   * Leaves out texts that only people read: the log, and messages of errors. Codes, events and states are changed like all
   * other code.
   */
  declareValuePlugin(PluginKind.Ignore, 'texts-for-people', {
    shouldIgnore(path) {
      const { node } = path as unknown as { node: SyntaxNode };
      if (isLogCall(node)) return 'a line of the log';
      return isSentence(node) ? 'a sentence' : undefined;
    },
  }),
];
