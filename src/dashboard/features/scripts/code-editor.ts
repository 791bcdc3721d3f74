import {
  acceptCompletion,
  autocompletion,
  completionStatus,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  StreamLanguage,
  type StreamParser,
  syntaxHighlighting,
} from '@codemirror/language';
import { python } from '@codemirror/legacy-modes/mode/python';
import { powerShell } from '@codemirror/legacy-modes/mode/powershell';
import { shell } from '@codemirror/legacy-modes/mode/shell';
import { type Diagnostic, linter, lintKeymap } from '@codemirror/lint';
import { search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, Prec, StateEffect } from '@codemirror/state';
import { EditorView, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { cmdMode } from './cmd-mode.ts';
import styles from './code-editor.module.css';
import {
  type CodeLanguage,
  completionPlace,
  type Declared,
  undeclaredIn,
  variableOf,
} from './parameter-text.ts';

/** The editor of scripts (CodeMirror). It is large, so only the pages with a script load it. */

const MODES: Record<CodeLanguage, StreamLanguage<unknown>> = {
  bash: modeOf(shell),
  powershell: modeOf(powerShell),
  python: modeOf(python),
  cmd: modeOf(cmdMode),
};
const INDENT: Record<CodeLanguage, string> = { bash: '  ', powershell: '    ', python: '    ', cmd: '  ' };

function modeOf(parser: StreamParser<unknown>): StreamLanguage<unknown> {
  return StreamLanguage.define(parser);
}

const TYPE_NAMES: Record<Declared['type'], string> = {
  text: 'text',
  number: 'number',
  boolean: 'true or false',
  secret: 'secret',
};

/** A script of a hundred mistakes needs no more marks. */
const MARKS_MAX = 100;
const LINE_HEIGHT = 1.5;
/** Marks are made anew. */
const SETTINGS_CHANGED = StateEffect.define();

const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.controlKeyword, tags.labelName], class: styles['keyword'] ?? '' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], class: styles['text'] ?? '' },
  { tag: [tags.number, tags.bool, tags.atom], class: styles['number'] ?? '' },
  {
    tag: [
      tags.variableName,
      tags.definition(tags.variableName),
      tags.special(tags.variableName),
      tags.attributeName,
    ],
    class: styles['variable'] ?? '',
  },
  { tag: [tags.operator, tags.punctuation, tags.bracket], class: styles['operator'] ?? '' },
  { tag: [tags.comment, tags.meta], class: styles['comment'] ?? '' },
]);

/** In the colours of our themes, whichever is on. */
const THEME = EditorView.theme({
  '&': {
    color: 'var(--mantine-color-text)',
    backgroundColor: 'var(--mantine-color-body)',
    border: '1px solid var(--mantine-color-default-border)',
    borderRadius: 'var(--mantine-radius-sm)',
  },
  '&.cm-focused': { outline: 'none' },
  '&.cm-focused .cm-scroller': {
    outline: '2px solid var(--mantine-primary-color-filled)',
    outlineOffset: '-1px',
  },
  '&.cm-invalid': { borderColor: 'var(--mantine-color-error)' },
  '.cm-scroller': {
    fontFamily: 'var(--mantine-font-family-monospace)',
    lineHeight: String(LINE_HEIGHT),
    overflow: 'auto',
  },
  '.cm-content': { caretColor: 'var(--mantine-color-text)' },
  '.cm-gutters': {
    color: 'var(--mantine-color-dimmed)',
    backgroundColor: 'var(--mantine-color-body)',
    borderRight: '1px solid var(--mantine-color-default-border)',
  },
  '.cm-tooltip, .cm-panels': {
    color: 'var(--mantine-color-text)',
    backgroundColor: 'var(--mantine-color-body)',
    border: '1px solid var(--mantine-color-default-border)',
  },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    color: 'var(--mantine-primary-color-contrast)',
    backgroundColor: 'var(--mantine-primary-color-filled)',
  },
  '.cm-completionDetail': { fontStyle: 'normal', marginLeft: '12px' },
  '.cm-diagnosticAction': { backgroundColor: 'var(--mantine-primary-color-filled)' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': {
    backgroundColor: 'light-dark(#d0ebff, #1c4a6e)',
  },
  '.cm-searchMatch': { backgroundColor: 'light-dark(#fff3bf, #5c4a00)' },
  '.cm-searchMatch-selected': { backgroundColor: 'light-dark(#ffd43b, #8a6d00)' },
  '.cm-button, .cm-textfield': {
    color: 'var(--mantine-color-text)',
    backgroundColor: 'var(--mantine-color-default)',
    backgroundImage: 'none',
    border: '1px solid var(--mantine-color-default-border)',
  },
});

/** What may change while the editor is open. */
export interface CodeSettings {
  language: CodeLanguage;
  parameters: readonly Declared[];
  /** Declares a parameter that the text names. Absent where none can be declared. */
  onDeclare?: ((parameter: Declared) => void) | undefined;
  isInvalid: boolean;
}

interface Opening extends CodeSettings {
  text: string;
  /** The ids of its name and of its description. */
  labelledBy: string;
  describedBy: string;
  /** Takes the focus when the dialog around it opens. */
  isFirst: boolean;
  rows: { least: number; most: number };
  onChange: (text: string) => void;
}

export interface CodeEditor {
  set: (settings: CodeSettings) => void;
  replace: (text: string) => void;
  /** Gives it the focus. */
  take: (selection?: { anchor: number; head: number }) => void;
  close: () => void;
}

/** Opens an editor in an element. */
export function openCodeEditor(place: HTMLElement, opening: Opening): CodeEditor {
  const { text, labelledBy, describedBy, isFirst, rows, onChange } = opening;
  let settings: CodeSettings = opening;
  const changeable = new Compartment();
  const height = (lines: number) => `${lines * LINE_HEIGHT}em`;

  const changing = () => [
    MODES[settings.language],
    indentUnit.of(INDENT[settings.language]),
    EditorView.editorAttributes.of({ class: settings.isInvalid ? 'cm-invalid' : '' }),
    EditorView.contentAttributes.of({ 'aria-invalid': String(settings.isInvalid) }),
  ];
  const view = new EditorView({
    parent: place,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        indentOnInput(),
        bracketMatching(),
        search({ top: true }),
        syntaxHighlighting(COLOURS),
        THEME,
        EditorView.theme({
          '.cm-scroller': { maxHeight: height(rows.most) },
          '.cm-content, .cm-gutter': { minHeight: height(rows.least) },
        }),
        // Before the completions, which take Escape for themselves even while there are none yet.
        Prec.highest(keymap.of([{ key: 'Escape', run: leaveNext }])),
        autocompletion({
          icons: false,
          override: [(context) => completionsAt(context, settings)],
        }),
        linter((edited) => marksOf(edited, settings), {
          delay: 300,
          needsRefresh: ({ transactions }) =>
            transactions.some(({ effects }) => effects.some((effect) => effect.is(SETTINGS_CHANGED))),
        }),
        keymap.of([
          { key: 'Tab', run: acceptCompletion },
          ...lintKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...defaultKeymap,
          indentWithTab,
        ]),
        EditorView.contentAttributes.of({
          'aria-labelledby': labelledBy,
          'aria-describedby': describedBy,
          'aria-required': 'true',
          tabindex: '0',
          ...(isFirst ? { 'data-autofocus': 'true' } : {}),
        }),
        EditorView.domEventHandlers({
          focus: (_, edited) => letTabLeave(edited, false),
        }),
        EditorView.updateListener.of(({ docChanged, state, view: edited }) => {
          if (!docChanged) return;
          letTabLeave(edited, false);
          onChange(state.doc.toString());
        }),
        changeable.of(changing()),
      ],
    }),
  });
  letTabLeave(view, false);
  return {
    set: (next) => {
      settings = next;
      view.dispatch({ effects: [changeable.reconfigure(changing()), SETTINGS_CHANGED.of(null)] });
    },
    replace: (next) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } }),
    take: (selection) => {
      const { length } = view.state.doc;
      if (selection !== undefined) {
        const { anchor, head } = selection;
        view.dispatch({ selection: { anchor: Math.min(anchor, length), head: Math.min(head, length) } });
      }
      view.focus();
    },
    close: () => view.destroy(),
  };
}

/**
 * Tab indents, and after Escape it leaves the field, until something is typed. A dialog around the field closes by the
 * next Escape only.
 */
function letTabLeave(view: EditorView, isLeaving: boolean): void {
  view.setTabFocusMode(isLeaving);
  view.contentDOM.setAttribute('data-mantine-stop-propagation', String(!isLeaving));
}

/** Escape does what else it does as well, such as closing a panel. While completions are open, it only closes these. */
function leaveNext(view: EditorView): false {
  if (completionStatus(view.state) !== 'active') letTabLeave(view, true);
  return false;
}

function completionsAt(
  { state, pos, explicit }: CompletionContext,
  { language, parameters }: CodeSettings,
): CompletionResult | null {
  const line = state.doc.lineAt(pos);
  const place = completionPlace(line.text.slice(0, pos - line.from), language, explicit);
  if (place === undefined || parameters.length === 0) return null;
  const options = parameters.map((parameter): Completion => {
    const variable = variableOf(parameter);
    return { label: variable, detail: TYPE_NAMES[parameter.type], apply: place.insert(variable) };
  });
  return { from: pos - place.length, options, validFor: /^\w*$/ };
}

function marksOf({ state }: EditorView, { language, parameters, onDeclare }: CodeSettings): Diagnostic[] {
  return undeclaredIn(state.doc.toString(), parameters, language, MARKS_MAX).map(
    ({ from, to, variable, declares }) => ({
      from,
      to,
      severity: 'warning',
      message: `No parameter declares ${variable}.`,
      ...(onDeclare === undefined
        ? {}
        : { actions: [{ name: `Declare ${declares.name}`, apply: () => onDeclare(declares) }] }),
    }),
  );
}
