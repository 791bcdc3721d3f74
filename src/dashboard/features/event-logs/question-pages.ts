/** The pages of standing questions, which are loaded together: the program begins with one address fewer. */
export { QuestionPage } from './question-page.tsx';
export { QuestionsPage } from './questions-page.tsx';
