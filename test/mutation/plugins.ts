import type { NodePath } from '@stryker-mutator/api/ignore';
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
    this.#context = ((globalThis as Record<string, unknown>)[INSTRUMENTER_CONSTANTS.NAMESPACE] ??=
      {}) as InstrumenterContext;
    this.#mocha = new Mocha({ reporter: Silent, timeout: 0, rootHooks: mochaHooks, bail: true });
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
    this.#context.hitLimit = hitLimit;
    this.#context.hitCount = hitLimit === undefined ? undefined : 0;
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
    this.#context.currentTestId = undefined;
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

class Silent {}

const LOG_METHODS = new Set(['trace', 'debug', 'info', 'warn', 'error', 'fatal']);

function isLogCall(path: NodePath): boolean {
  if (!path.isCallExpression()) return false;
  const callee = path.get('callee');
  if (!callee.isMemberExpression() || callee.node.property.type !== 'Identifier') return false;
  return LOG_METHODS.has(callee.node.property.name) && /\blog$/.test(callee.get('object').toString());
}

/** A sentence is for people: the message of an error. Codes, events and states are single words. */
function isSentence(path: NodePath): boolean {
  if (path.isStringLiteral()) return /^[A-Z].* .*[.!]$/.test(path.node.value);
  if (!path.isTemplateLiteral()) return false;
  const { quasis } = path.node;
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
      if (isLogCall(path)) return 'a line of the log';
      return isSentence(path) ? 'a sentence' : undefined;
    },
  }),
];
